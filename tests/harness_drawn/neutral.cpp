#include "tests/harness_drawn/neutral.hpp"

#include <algorithm>

namespace shardsim::drawn {

namespace {

const PlannedCall& call_at(const ProgramPlan& plan, int rank, std::size_t action) {
  return plan.ranks[static_cast<std::size_t>(rank)].actions[action].call;
}

DType dtype_at(const RankPlan& rank, const Elements& part) {
  return part.buffer < 0 ? DType::fp32 : rank.buffers[static_cast<std::size_t>(part.buffer)].dtype;
}

// Elements of the full buffer, as members compare them.
std::int64_t full_count(const ProgramPlan& plan, int rank, const PlannedCall& call) {
  const CollectiveRow& row = row_of(call.kind);
  if (row.path == CollectivePath::pairs || row.path == CollectivePath::none) return 0;
  if (row.in_place()) return call.output.count;
  const Elements& chunk = row.output == BufferPart::whole ? call.input : call.output;
  std::int64_t sum = 0;
  for (const std::int64_t count : call.counts) sum += count;
  const auto size = static_cast<std::int64_t>(plan.members(call.group, rank).size());
  return call.counts.empty() ? size * chunk.count : sum;
}

bool equal_collectives(const ProgramPlan& plan, int rank, const PlannedCall& a,
                       const PlannedCall& b) {
  const RankPlan& mine = plan.ranks[static_cast<std::size_t>(rank)];
  const CollectiveRow& row = row_of(a.kind);
  if (a.kind != b.kind || a.label != b.label || a.traffic != b.traffic) return false;
  if (row.reduces && a.op != b.op) return false;
  if (row.root != RootRole::none && a.root != b.root) return false;
  if (row.path == CollectivePath::none) return true;
  const auto dtype = [&](const PlannedCall& call) {
    return dtype_at(mine, call.output.buffer >= 0 ? call.output : call.input);
  };
  return dtype(a) == dtype(b) && a.counts == b.counts && a.recv_counts == b.recv_counts &&
         full_count(plan, rank, a) == full_count(plan, rank, b);
}

bool equal_messages(const RankPlan& mine, const PlannedCall& a, const PlannedCall& b) {
  const Elements& one = a.halves.front().data;
  const Elements& other = b.halves.front().data;
  return one.count == other.count && dtype_at(mine, one) == dtype_at(mine, other) &&
         a.label == b.label && a.traffic == b.traffic;
}

// The call at the other end of a tagged message; null if any rank may be there.
const PlannedCall* other_end(const ProgramPlan& plan, int rank, const PlannedCall& call) {
  const PlannedHalf& mine = call.halves.front();
  if (mine.peer < 0) return nullptr;
  for (const Action& action : plan.ranks[static_cast<std::size_t>(mine.peer)].actions) {
    const PlannedCall& other = action.call;
    if (action.kind != Action::Kind::call || other.form != PlannedCall::Form::tagged) continue;
    const PlannedHalf& half = other.halves.front();
    if (other.statement == call.statement && half.sends != mine.sends &&
        (half.peer == rank || half.peer < 0)) {
      return &other;
    }
  }
  return nullptr;
}

bool label_counts(const ProgramPlan& plan, const Plant& plant, const PlannedCall& call) {
  if (call.form != PlannedCall::Form::tagged) return true;
  const PlannedCall* const other = other_end(plan, plant.rank, call);
  const std::string_view theirs = label_of(other == nullptr ? call.label : other->label);
  const std::string_view changed = label_of(call.label + 1);
  return !theirs.empty() && !changed.empty();
}

}  // namespace

bool is_neutral(const ProgramPlan& plan, const Plant& plant) {
  using Form = PlannedCall::Form;
  const PlannedCall& call = call_at(plan, plant.rank, plant.action);
  const RankPlan& mine = plan.ranks[static_cast<std::size_t>(plant.rank)];
  const bool tagged = call.form == Form::tagged;
  const bool alone = !tagged && plan.members(call.group, plant.rank).size() == 1;
  const bool whole = plant.kind == PlantKind::missing || plant.kind == PlantKind::doubled ||
                     plant.kind == PlantKind::label;
  switch (plant.kind) {
    case PlantKind::same_value:
    case PlantKind::read_input:
      return true;
    case PlantKind::write:
    case PlantKind::write_raw:
    case PlantKind::read:
    case PlantKind::read_raw:
    case PlantKind::reuse:
    case PlantKind::unwaited:
      return false;
    case PlantKind::group:
      return alone && plan.members(static_cast<int>(plant.other), plant.rank).size() == 1;
    case PlantKind::order: {
      const PlannedCall& other = call_at(plan, plant.rank, plant.other);
      if (alone) return true;
      if (call.form != other.form || call.form == Form::split) return false;
      if (call.form == Form::message) return equal_messages(mine, call, other);
      return equal_collectives(plan, plant.rank, call, other);
    }
    case PlantKind::count:
      if (tagged && !call.halves.front().sends) return true;
      break;
    case PlantKind::tag: {
      const PlannedCall* const other = tagged ? other_end(plan, plant.rank, call) : nullptr;
      return call.halves.front().sends && other != nullptr && other->tag == kAnyTag;
    }
    case PlantKind::label:
      if (!label_counts(plan, plant, call)) return true;
      break;
    default:
      break;
  }
  if (!alone) return false;
  return call.form == Form::collective || call.form == Form::split ||
         (call.form == Form::batch && whole);
}

}  // namespace shardsim::drawn
