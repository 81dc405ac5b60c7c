#include "sim/programs/step_facts.hpp"

#include <algorithm>

#include "backends/program/program_tables.hpp"

#include "sim/programs/last_step.hpp"

namespace shardsim {

namespace {

// Groups of groups are told by places in their parents, which come first.
std::vector<StepGroup> groups_at(const RankProgram& program, int rank) {
  std::vector<StepGroup> groups;
  for (const ProgramGroup& made : program.groups) {
    StepGroup& group = groups.emplace_back(StepGroup{.name = made.name, .members = {}});
    const RankSpan span = made.members_for(rank);
    for (int i = 0; i < span.size; ++i) {
      const int member = span.rank(i);
      group.members.push_back(made.parent <= 0
                                  ? member
                                  : groups[static_cast<std::size_t>(made.parent)].members.at(
                                        static_cast<std::size_t>(member)));
    }
  }
  return groups;
}

std::optional<StepEventKind> kind_of(const ComputeOp& op) {
  switch (op.shape.family) {
    case KernelFamily::matrix_product:
    case KernelFamily::weight_gradient:
      return StepEventKind::product;
    case KernelFamily::attention_forward:
      return StepEventKind::attention;
    case KernelFamily::attention_backward:
      return StepEventKind::attention_backward;
    default:
      return std::nullopt;
  }
}

}  // namespace

StepFacts step_facts_of(const ProgramSet& set, int rank) {
  const RankProgram& program = set.programs.program_of(rank);
  StepFacts facts{.rank = rank, .groups = groups_at(program, rank)};
  const StepRange range = last_step_of(program);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const ProgramStep& step = program.steps[i];
    if (step.kind == ProgramStep::Kind::post) {
      const ProgramCall& call = program.tables->call(step.row);
      facts.events.push_back({.kind = StepEventKind::call,
                              .call = &call,
                              .group = static_cast<std::size_t>(call.group)});
    }
    if (step.kind != ProgramStep::Kind::compute) continue;
    const ComputeOp& op = program.tables->operation(step.row);
    facts.operations.insert(op.name);
    const std::optional<StepEventKind> kind = kind_of(op);
    if (!kind) continue;
    if (*kind == StepEventKind::product && !facts.product_dtype) facts.product_dtype = op.dtype;
    facts.events.push_back({.kind = *kind, .shape = op.shape});
  }
  return facts;
}

int StepGroup::stride() const {
  if (size() < 2) return 0;
  const int stride = members[1] - members[0];
  for (std::size_t i = 2; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != stride) return 0;
  }
  return stride;
}

std::size_t StepFacts::count(StepEventKind kind) const {
  return static_cast<std::size_t>(std::ranges::count(events, kind, &StepEvent::kind));
}

std::size_t StepFacts::next(StepEventKind kind, std::size_t from) const {
  while (from < events.size() && events[from].kind != kind) ++from;
  return from;
}

std::set<int> StepFacts::peers() const {
  std::set<int> peers;
  for (const StepEvent& event : events) {
    if (event.call == nullptr) continue;
    for (const ProgramMessage& message : event.call->messages) {
      peers.insert(groups[event.group].members.at(static_cast<std::size_t>(message.peer)));
    }
  }
  return peers;
}

bool sums_for_all(const ProgramCall& call) {
  return call.kind == CallKind::collective && row_of(call.collective).reduces_to_all() &&
         row_of(call.collective).reduces;
}

bool sums_in_parts(const ProgramCall& call) {
  const CollectiveRow& row = row_of(call.collective);
  return call.kind == CallKind::collective && row.ring_passes() == 1 && row.reduces;
}

bool gathers_for_all(const ProgramCall& call) {
  const CollectiveRow& row = row_of(call.collective);
  return call.kind == CallKind::collective && row.ring_passes() == 1 && !row.reduces;
}

bool is_scalar(const ProgramCall& call) {
  constexpr std::int64_t kMostScalars = 64;
  return call.kind == CallKind::collective && call.send_counts.empty() &&
         call.record.count <= kMostScalars;
}

}  // namespace shardsim
