#include "backends/fiber/stall_report.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "backends/call_mismatch.hpp"

namespace shardsim {

namespace {

// Fills in which operation it is about.
void locate(Diagnosis& diagnosis, const FiberOperation& operation, Time time) {
  diagnosis.group = operation.group()->name();
  diagnosis.members = operation.group()->all_world_ranks();
  diagnosis.sequence = operation.sequence();
  diagnosis.time = time;
  diagnosis.last_matched = operation.group()->last_matched();
}

// A diagnosis of `operation`, with all but the sides filled in.
Diagnosis begin_report(const FiberOperation& operation, std::string code, Time time) {
  Diagnosis diagnosis;
  diagnosis.code = std::move(code);
  locate(diagnosis, operation, time);
  return diagnosis;
}

// --- Calls that do not match -------------------------------------------------------------------

Diagnosis explain_mismatch(const CollectiveOperation& operation, Time time) {
  const FiberGroup& group = *operation.group();
  std::vector<int> agreeing = operation.arrived();
  std::vector<MadeCall> others;
  for (const auto& [member, record] : operation.disagreements()) {
    agreeing.erase(std::remove(agreeing.begin(), agreeing.end(), member), agreeing.end());
    others.push_back({group.world_rank(member), record});
  }
  Diagnosis diagnosis = explain_mismatched_calls(
      group.name(), operation.sequence(), operation.record(), group.world_ranks(agreeing), others);
  locate(diagnosis, operation, time);
  return diagnosis;
}

Diagnosis explain_mismatch(const TransferOperation& operation, Time time) {
  const FiberGroup& group = *operation.group();
  Diagnosis diagnosis = explain_mismatched_message(
      operation.sequence(), {group.world_rank(operation.source()), operation.side(true)},
      {group.world_rank(operation.destination()), operation.side(false)});
  locate(diagnosis, operation, time);
  return diagnosis;
}

bool mismatched(const FiberOperation& operation) {
  if (const auto* collective = dynamic_cast<const CollectiveOperation*>(&operation)) {
    return !collective->disagreements().empty();
  }
  const auto* transfer = dynamic_cast<const TransferOperation*>(&operation);
  return transfer != nullptr && transfer->mismatched();
}

// The first mismatch of the first group that has one: what follows it may be its consequence.
std::optional<Diagnosis> find_mismatch(const std::deque<FiberGroup>& groups, Time time) {
  for (const FiberGroup& group : groups) {
    const FiberOperation* first = nullptr;
    for (const FiberOperation* operation : group.open_operations()) {
      if (!mismatched(*operation)) continue;
      if (first == nullptr || operation->sequence() < first->sequence()) first = operation;
    }
    if (first == nullptr) continue;
    if (const auto* collective = dynamic_cast<const CollectiveOperation*>(first)) {
      return explain_mismatch(*collective, time);
    }
    return explain_mismatch(static_cast<const TransferOperation&>(*first), time);
  }
  return std::nullopt;
}

// --- Who waits for whom ------------------------------------------------------------------------

class WaitGraph {
 public:
  WaitGraph(const Engine& engine, const std::deque<FiberGroup>& groups) : engine_(engine) {
    for (const FiberGroup& group : groups) {
      for (const FiberOperation* operation : group.open_operations()) {
        if (!operation->resolved()) open_.push_back(operation);
      }
    }
  }

  // Follows a waiting rank to the root of its trouble: a rank that has finished, or a circle.
  Diagnosis explain(Time time) const {
    int rank = 0;
    while (rank < engine_.num_ranks() && engine_.rank(rank).blocked_on() == nullptr) ++rank;
    std::vector<int> path;
    std::vector<const FiberOperation*> waits;
    while (true) {
      const std::vector<const FiberOperation*> way =
          trace_back(*static_cast<const FiberOperation*>(engine_.rank(rank).blocked_on()));
      const FiberOperation& operation = *way.back();
      if (operation.missing().empty()) return explain_stream_circle(way, time);
      const auto seen = std::find(path.begin(), path.end(), rank);
      if (seen != path.end()) {
        const auto first = static_cast<std::size_t>(seen - path.begin());
        return explain_circle({path.begin() + static_cast<std::ptrdiff_t>(first), path.end()},
                              {waits.begin() + static_cast<std::ptrdiff_t>(first), waits.end()},
                              time);
      }
      path.push_back(rank);
      waits.push_back(&operation);
      const std::vector<int> missing = operation.group()->world_ranks(operation.missing());
      for (const int absent : missing) {
        if (engine_.rank(absent).finished()) return explain_absence(operation, missing, time);
      }
      rank = missing.front();
    }
  }

 private:
  // The way from an operation to the one it stands behind, and so on, down to one that misses
  // members, or that is on the way already: then operations wait for each other.
  std::vector<const FiberOperation*> trace_back(const FiberOperation& operation) const {
    std::vector<const FiberOperation*> way = {&operation};
    while (way.back()->missing().empty()) {
      const auto prior = std::find_if(open_.begin(), open_.end(), [&](const FiberOperation* other) {
        return other->is_followed_by(*way.back());
      });
      if (prior == open_.end()) break;
      const bool seen = std::find(way.begin(), way.end(), *prior) != way.end();
      way.push_back(*prior);
      if (seen) break;
    }
    return way;
  }

  // Posted by everyone, but each behind the other on some rank's stream.
  static Diagnosis explain_stream_circle(const std::vector<const FiberOperation*>& way, Time time) {
    const auto first = std::find(way.begin(), way.end(), way.back());
    Diagnosis diagnosis = begin_report(*way.back(), "DEADLOCK", time);
    diagnosis.summary = "operations wait for each other on the streams of their ranks";
    for (auto operation = first; std::next(operation) != way.end(); ++operation) {
      const FiberOperation& behind = **operation;
      const std::vector<int> ranks = behind.group()->world_ranks(behind.arrived());
      diagnosis.cycle.push_back(behind.record().describe() + " (ranks " + format_ranks(ranks) +
                                ") is posted behind " +
                                (*std::next(operation))->record().describe());
      diagnosis.sides.push_back(
          {.ranks = ranks, .action = behind.record().describe(), .site = behind.record().site});
    }
    diagnosis.hint =
        "a communicator runs one operation after the other: post transfers that face each other in "
        "one batch";
    return diagnosis;
  }

  std::string activity(int rank, CallSite& site) const {
    const RankState& state = engine_.rank(rank);
    if (state.finished()) return "has finished";
    const auto* operation = static_cast<const FiberOperation*>(state.blocked_on());
    if (operation == nullptr) return "runs";
    site = operation->record().site;
    return "waits in " + operation->record().describe() + " of group " + operation->group()->name();
  }

  void add_sides(Diagnosis& diagnosis, const FiberOperation& operation,
                 const std::vector<int>& missing) const {
    std::map<std::string, DiagnosisSide> by_activity;
    for (const int rank : missing) {
      CallSite site;
      const std::string action = activity(rank, site);
      DiagnosisSide& side = by_activity[action];
      side.action = "missing: " + action;
      side.site = site;
      side.ranks.push_back(rank);
    }
    for (auto& [_, side] : by_activity) diagnosis.sides.push_back(std::move(side));
    sort_sides(diagnosis);
    diagnosis.sides.push_back({.ranks = operation.group()->world_ranks(operation.arrived()),
                               .action = "called " + operation.record().describe() + " and wait",
                               .site = operation.record().site});
  }

  Diagnosis explain_absence(const FiberOperation& operation, const std::vector<int>& missing,
                            Time time) const {
    const bool collective = dynamic_cast<const CollectiveOperation*>(&operation) != nullptr;
    Diagnosis diagnosis =
        begin_report(operation, collective ? "COLL_MISSING" : "P2P_UNMATCHED", time);
    diagnosis.summary = operation.record().describe() + " waits for " +
                        (missing.size() == 1 ? "rank " : "ranks ") + format_ranks(missing) +
                        ", which will never call it";
    add_sides(diagnosis, operation, missing);
    diagnosis.hint = collective
                         ? "every member must make every call of the group, also with empty data"
                         : "every send needs a recv on its peer, in the same order";
    return diagnosis;
  }

  Diagnosis explain_circle(const std::vector<int>& ranks,
                           const std::vector<const FiberOperation*>& waits, Time time) const {
    Diagnosis diagnosis = begin_report(*waits.front(), "DEADLOCK", time);
    diagnosis.summary = std::to_string(ranks.size()) +
                        (ranks.size() == 1 ? " rank waits" : " ranks wait") +
                        " for each other in a circle";
    bool transfers = false;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const CallRecord& call =
          static_cast<const FiberOperation*>(engine_.rank(ranks[i]).blocked_on())->record();
      const int next = ranks[(i + 1) % ranks.size()];
      const FiberOperation& operation = *waits[i];
      std::string line = "rank " + std::to_string(ranks[i]) + " waits in " + call.describe() +
                         " of group " + operation.group()->name();
      line += " for rank " + std::to_string(next) + " to call its part of " +
              operation.record().describe() + " (#" + std::to_string(operation.sequence()) + ")";
      diagnosis.cycle.push_back(line);
      transfers |= operation.record().root >= 0;
      diagnosis.sides.push_back(
          {.ranks = {ranks[i]}, .action = call.describe(), .site = call.site});
    }
    diagnosis.hint = transfers
                         ? "put sends and receives that face each other into one batch, or let one "
                           "side receive first"
                         : "make all ranks use their groups in the same order";
    return diagnosis;
  }

  const Engine& engine_;
  std::vector<const FiberOperation*> open_;
};

}  // namespace

Diagnosis explain_stall(const Engine& engine, const std::deque<FiberGroup>& groups) {
  Time time;
  for (int rank = 0; rank < engine.num_ranks(); ++rank) time = max(time, engine.rank(rank).now());
  if (std::optional<Diagnosis> mismatch = find_mismatch(groups, time)) return *std::move(mismatch);
  return WaitGraph(engine, groups).explain(time);
}

}  // namespace shardsim
