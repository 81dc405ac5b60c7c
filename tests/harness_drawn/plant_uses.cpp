#include "tests/harness_drawn/plant_uses.hpp"

#include <algorithm>

namespace shardsim::drawn {

namespace {

bool touches(const Action& action, int buffer) {
  if (buffer < 0) return false;
  bool touched = action.part.buffer == buffer || action.call.output.buffer == buffer ||
                 action.call.input.buffer == buffer;
  for (const PlannedHalf& half : action.call.halves) touched |= half.data.buffer == buffer;
  return touched;
}

}  // namespace

std::vector<BufferUse> uses_of(const ProgramPlan& plan, int rank, const PlannedCall& call) {
  std::vector<BufferUse> uses;
  const auto add = [&](const Elements& part, bool reads, bool writes) {
    if (part.buffer >= 0 && part.count > 0 && (reads || writes)) {
      uses.push_back({part, reads, writes});
    }
  };
  for (const PlannedHalf& half : call.halves) add(half.data, half.sends, !half.sends);
  if (call.form != PlannedCall::Form::collective) return uses;
  const CollectiveRow& row = row_of(call.kind);
  const std::vector<int>& members = plan.members(call.group, rank);
  const bool at_root = members[static_cast<std::size_t>(call.root)] == rank;
  if (row.in_place()) {
    const bool from_root = row.root == RootRole::source;
    const bool to_root = row.root == RootRole::target;
    add(call.output, !from_root || at_root, to_root ? at_root : !(from_root && at_root));
  } else if (call.input.buffer == call.output.buffer && call.input.count > 0 &&
             call.output.count > 0) {
    add(call.output.count > call.input.count ? call.output : call.input, true, true);
  } else {
    add(call.input, true, false);
    add(call.output, false, true);
  }
  return uses;
}

const BufferUse* use_for(PlantKind kind, const std::vector<BufferUse>& uses) {
  const auto found = std::ranges::find_if(uses, [&](const BufferUse& use) {
    if (kind == PlantKind::read || kind == PlantKind::read_raw) return use.writes;
    return kind != PlantKind::read_input || !use.writes;
  });
  return found == uses.end() ? nullptr : &*found;
}

bool shares_buffer(const RankPlan& mine, std::size_t action, int buffer) {
  std::vector<int> waited;
  for (std::size_t i = 0; i < action; ++i) {
    if (mine.actions[i].kind == Action::Kind::wait) waited.push_back(mine.actions[i].work);
  }
  for (std::size_t i = 0; i < action; ++i) {
    const Action& other = mine.actions[i];
    if (other.kind != Action::Kind::call || std::ranges::count(waited, other.work) > 0) continue;
    if (touches(other, buffer)) return true;
  }
  return false;
}

bool share_buffers(const Action& action, const PlannedCall& call) {
  bool touched = touches(action, call.output.buffer) || touches(action, call.input.buffer);
  for (const PlannedHalf& half : call.halves) touched |= touches(action, half.data.buffer);
  return touched;
}

}  // namespace shardsim::drawn
