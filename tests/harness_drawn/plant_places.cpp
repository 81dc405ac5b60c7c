#include <algorithm>
#include <limits>

#include "tests/harness_drawn/plant_uses.hpp"

// Where a change of a call can be made.
namespace shardsim::drawn {

namespace {

using Form = PlannedCall::Form;

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

bool is_single(const PlannedCall& call) {
  return call.form == Form::message || call.form == Form::tagged;
}

// The rank's next call of the same group, or message of the same pair and direction.
std::size_t next_of(const std::vector<Action>& actions, std::size_t first) {
  const PlannedCall& call = actions[first].call;
  for (std::size_t i = first + 1; i < actions.size(); ++i) {
    if (actions[i].kind != Action::Kind::call) continue;
    const PlannedCall& other = actions[i].call;
    if (other.group != call.group || is_single(other) != is_single(call)) continue;
    if (!is_single(call) && other.form != Form::batch) return i;
    if (!is_single(call) || other.form != call.form || call.form == Form::tagged) continue;
    if (other.halves.front().sends == call.halves.front().sends &&
        other.halves.front().peer == call.halves.front().peer) {
      return i;
    }
  }
  return kNoPlace;
}

// Whether two calls can change places without a change of what else the rank does: nothing else
// uses their buffers meanwhile, or lies between them on their stream.
bool may_exchange(const std::vector<Action>& actions, std::size_t one, std::size_t other) {
  const PlannedCall& first = actions[one].call;
  const PlannedCall& second = actions[other].call;
  if (share_buffers(actions[one], second)) return false;
  for (std::size_t i = one + 1; i < other; ++i) {
    const bool passes =
        actions[i].kind == Action::Kind::call && actions[i].call.group == first.group;
    if (passes || share_buffers(actions[i], second)) return false;
  }
  int waits = 0;
  for (std::size_t i = one + 1; i < actions.size() && waits < 2; ++i) {
    const int work = actions[i].work;
    const bool waited = actions[i].kind == Action::Kind::wait;
    if (waited && (work == actions[one].work || work == actions[other].work)) ++waits;
    const bool calls = i != other && actions[i].kind == Action::Kind::call;
    if (calls && (share_buffers(actions[i], first) || share_buffers(actions[i], second)))
      return false;
  }
  return true;
}

// A call that is under way together with this one, on another stream, and has a like buffer.
std::size_t sharer_of(const RankPlan& mine, std::size_t first) {
  const PlannedCall& call = mine.actions[first].call;
  const auto size = [&](const Elements& part) {
    return mine.buffers[static_cast<std::size_t>(part.buffer)];
  };
  if (call.form != Form::collective || call.output.count == 0) return kNoPlace;
  for (std::size_t i = first + 1; i < mine.actions.size(); ++i) {
    const Action& action = mine.actions[i];
    if (action.kind == Action::Kind::wait && action.work == mine.actions[first].work)
      return kNoPlace;
    if (action.kind != Action::Kind::call) continue;
    const PlannedCall& other = action.call;
    if (other.after >= 0) return kNoPlace;
    if (other.form != Form::collective || other.group == call.group) continue;
    if (!row_of(other.kind).in_place() || other.output.count != call.output.count) continue;
    if (row_of(call.kind).root != RootRole::none || row_of(other.kind).root != RootRole::none)
      continue;
    if (size(other.output).dtype == size(call.output).dtype) return i;
  }
  return kNoPlace;
}

// Another group that this rank has made before, and that has the root; kNoPlace: there is none.
std::size_t other_group_of(const ProgramPlan& plan, const Plant& plant) {
  const std::vector<Action>& actions = rank_at(plan, plant.rank).actions;
  const PlannedCall& call = actions[plant.action].call;
  for (std::size_t group = 0; group < plan.groups.size(); ++group) {
    const int number = static_cast<int>(group);
    const auto makes = [&](const Action& action) {
      return action.call.form == Form::split && action.call.makes == number;
    };
    const auto end = actions.begin() + static_cast<std::ptrdiff_t>(plant.action);
    const bool made = group == 0 || std::any_of(actions.begin(), end, makes);
    const auto size = static_cast<int>(plan.members(number, plant.rank).size());
    if (made && number != call.group && call.root < size) return group;
  }
  return kNoPlace;
}

// Whether the call has a buffer that can be touched so before its wait.
bool fits_touch(const ProgramPlan& plan, const Plant& plant) {
  const RankPlan& mine = rank_at(plan, plant.rank);
  const std::vector<BufferUse> uses = uses_of(plan, plant.rank, mine.actions[plant.action].call);
  const BufferUse* const use = use_for(plant.kind, uses);
  // On a buffer of several calls, one behind the other, results are in sight.
  const bool alone = plant.kind == PlantKind::read_input || plant.kind == PlantKind::read_raw;
  return use != nullptr && !(alone && shares_buffer(mine, plant.action, use->part.buffer));
}

// Whether a call can be changed so; `other` is filled in where the change needs another.
bool fits(const ProgramPlan& plan, Plant& plant) {
  const RankPlan& mine = rank_at(plan, plant.rank);
  const PlannedCall& call = mine.actions[plant.action].call;
  const CollectiveRow& row = row_of(call.kind);
  const bool collective = call.form == Form::collective;
  const bool sized = collective && row.path != CollectivePath::none;
  const int size = size_of_group(plan, call, plant.rank);
  const bool any = !call.halves.empty() && call.halves.front().peer < 0;
  switch (plant.kind) {
    case PlantKind::kind:
      return collective || (call.form != Form::split && !any);
    case PlantKind::count:
      if (collective && row.path == CollectivePath::pairs) return size > 1;
      return call.form != Form::split && (!collective || (sized && call.counts.empty()));
    case PlantKind::dtype:
      return sized || !call.halves.empty();
    case PlantKind::op:
      return collective && row.reduces;
    case PlantKind::root:
      return collective && row.root != RootRole::none && row.in_place() && size > 1;
    case PlantKind::peer:
      return is_single(call) && !any && (call.form == Form::tagged || size > 2);
    case PlantKind::tag:
      return call.form == Form::tagged;
    case PlantKind::label:
      return call.form != Form::split;
    case PlantKind::group:
      plant.other = other_group_of(plan, plant);
      return collective && row.in_place() && plant.other != kNoPlace;
    case PlantKind::order:
      plant.other = next_of(mine.actions, plant.action);
      return plant.other != kNoPlace && call.form != Form::batch &&
             may_exchange(mine.actions, plant.action, plant.other);
    case PlantKind::missing:
    case PlantKind::doubled:
      return true;
    case PlantKind::unwaited:
      return call.form != Form::split;
    case PlantKind::reuse:
      plant.other = sharer_of(mine, plant.action);
      return plant.other != kNoPlace;
    default:
      return fits_touch(plan, plant);
  }
}

}  // namespace

std::vector<Plant> places_of(const ProgramPlan& plan, PlantKind kind) {
  std::vector<Plant> places;
  for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank) {
    const std::vector<Action>& actions = rank_at(plan, rank).actions;
    for (std::size_t action = 0; action < actions.size(); ++action) {
      if (actions[action].kind != Action::Kind::call) continue;
      Plant plant{kind, rank, action, 0};
      if (fits(plan, plant)) places.push_back(plant);
    }
  }
  return places;
}

}  // namespace shardsim::drawn
