#include "backends/fiber/stall_parts.hpp"

#include <algorithm>
#include <utility>

#include "backends/call.hpp"

namespace shardsim {

void locate(Diagnosis& diagnosis, const FiberOperation& operation, Time time) {
  diagnosis.group = operation.group()->name();
  diagnosis.members = operation.group()->all_world_ranks();
  diagnosis.sequence = operation.sequence();
  diagnosis.time = time;
  diagnosis.last_matched = operation.group()->last_matched();
}

Diagnosis begin_report(const FiberOperation& operation, std::string code, Time time) {
  Diagnosis diagnosis;
  diagnosis.code = std::move(code);
  locate(diagnosis, operation, time);
  return diagnosis;
}

const FiberOperation* awaited_by(const Engine& engine, int rank) {
  return static_cast<const FiberOperation*>(engine.rank(rank).blocked_on());
}

std::string activity(const Engine& engine, int rank, CallSite& site) {
  if (engine.rank(rank).finished()) return "has finished";
  const FiberOperation* const operation = awaited_by(engine, rank);
  if (operation == nullptr) return "runs";
  site = operation->record().site;
  return "waits in " + operation->record().describe() + " of group " + operation->group()->name();
}

std::vector<DiagnosisSide> missing_sides(const Engine& engine, const std::vector<int>& missing) {
  SideTable by_activity;
  for (const int rank : missing) {
    CallSite site;
    const std::string action = activity(engine, rank, site);
    by_activity.add(rank, "missing: " + action).site = site;
  }
  Diagnosis sorted;
  by_activity.append_to(sorted.sides);
  sort_sides(sorted);
  // Ranks that wait may be held up by those that have left.
  std::stable_partition(sorted.sides.begin(), sorted.sides.end(), [&](const DiagnosisSide& side) {
    return engine.rank(side.ranks.front()).finished();
  });
  return std::move(sorted.sides);
}

DiagnosisSide waiting_side(const FiberOperation& operation) {
  return {.ranks = operation.group()->world_ranks(operation.arrived()),
          .action = "called " + operation.record().describe() + " and wait",
          .site = operation.record().site};
}

Diagnosis explain_mismatch(const CollectiveOperation& operation, Time time) {
  const FiberGroup& group = *operation.group();
  std::vector<int> agreeing = operation.arrived();
  std::vector<MadeCall> others;
  for (const auto& [member, record] : operation.disagreements()) {
    std::erase(agreeing, member);
    others.push_back({group.world_rank(member), record});
  }
  Diagnosis diagnosis = explain_mismatched_calls(
      group.name(), operation.sequence(), operation.record(), group.world_ranks(agreeing), others);
  locate(diagnosis, operation, time);
  return diagnosis;
}

}  // namespace shardsim
