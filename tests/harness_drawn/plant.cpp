#include "tests/harness_drawn/plant.hpp"

#include <algorithm>
#include <array>

namespace shardsim::drawn {

namespace {

using Form = PlannedCall::Form;

constexpr std::array<const char*, kPlantKinds> kNames = {
    "kind",      "count",      "dtype", "op",       "root",       "peer",     "tag",
    "label",     "group",      "order", "missing",  "doubled",    "unwaited", "write",
    "write_raw", "same_value", "read",  "read_raw", "read_input", "reuse"};

const RankPlan& rank_at(const ProgramPlan& plan, int rank) {
  return plan.ranks[static_cast<std::size_t>(rank)];
}

int size_of_group(const ProgramPlan& plan, const PlannedCall& call, int rank) {
  return static_cast<int>(plan.members(call.group, rank).size());
}

bool is_single(const PlannedCall& call) {
  return call.form == Form::message || call.form == Form::tagged;
}

// A buffer of a call that has elements, and what the call does with it.
struct BufferUse {
  Elements part;
  bool reads = false;
  bool writes = false;
};

std::vector<BufferUse> uses_of(const ProgramPlan& plan, int rank, const PlannedCall& call) {
  std::vector<BufferUse> uses;
  const auto add = [&](const Elements& part, bool reads, bool writes) {
    if (part.buffer >= 0 && part.count > 0 && (reads || writes)) {
      uses.push_back({part, reads, writes});
    }
  };
  for (const PlannedHalf& half : call.halves) add(half.data, half.sends, !half.sends);
  if (call.form != Form::collective) return uses;
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

// Whether another call that is under way uses a buffer of this one.
bool shares_buffer(const RankPlan& mine, std::size_t action, int buffer) {
  std::vector<int> waited;
  for (std::size_t i = 0; i < action; ++i) {
    if (mine.actions[i].kind == Action::Kind::wait) waited.push_back(mine.actions[i].work);
  }
  for (std::size_t i = 0; i < action; ++i) {
    const Action& other = mine.actions[i];
    if (other.kind != Action::Kind::call || std::ranges::count(waited, other.work) > 0) continue;
    bool has = other.call.output.buffer == buffer || other.call.input.buffer == buffer;
    for (const PlannedHalf& half : other.call.halves) has = has || half.data.buffer == buffer;
    if (has) return true;
  }
  return false;
}

// The first use that the change is about; null if there is none.
const BufferUse* use_for(PlantKind kind, const std::vector<BufferUse>& uses) {
  const auto found = std::ranges::find_if(uses, [&](const BufferUse& use) {
    if (kind == PlantKind::read || kind == PlantKind::read_raw) return use.writes;
    return kind != PlantKind::read_input || !use.writes;
  });
  return found == uses.end() ? nullptr : &*found;
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
  return 0;
}

bool touches(const Action& action, int buffer) {
  if (buffer < 0) return false;
  bool touched = action.part.buffer == buffer || action.call.output.buffer == buffer ||
                 action.call.input.buffer == buffer;
  for (const PlannedHalf& half : action.call.halves) touched |= half.data.buffer == buffer;
  return touched;
}

bool share_buffers(const Action& action, const PlannedCall& call) {
  bool touched = touches(action, call.output.buffer) || touches(action, call.input.buffer);
  for (const PlannedHalf& half : call.halves) touched |= touches(action, half.data.buffer);
  return touched;
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
  if (call.form != Form::collective || call.output.count == 0) return 0;
  for (std::size_t i = first + 1; i < mine.actions.size(); ++i) {
    const Action& action = mine.actions[i];
    if (action.kind == Action::Kind::wait && action.work == mine.actions[first].work) return 0;
    if (action.kind != Action::Kind::call) continue;
    const PlannedCall& other = action.call;
    if (other.after >= 0) return 0;
    if (other.form != Form::collective || other.group == call.group) continue;
    if (!row_of(other.kind).in_place() || other.output.count != call.output.count) continue;
    if (row_of(call.kind).root != RootRole::none || row_of(other.kind).root != RootRole::none)
      continue;
    if (size(other.output).dtype == size(call.output).dtype) return i;
  }
  return 0;
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
      if (!collective || !row.in_place()) return false;
      for (std::size_t group = 0; group < plan.groups.size(); ++group) {
        const auto& members = plan.members(static_cast<int>(group), plant.rank);
        const bool made = std::any_of(
            mine.actions.begin(), mine.actions.begin() + static_cast<std::ptrdiff_t>(plant.action),
            [&](const Action& a) {
              return a.call.form == Form::split && a.call.makes == static_cast<int>(group);
            });
        if (members.empty() || static_cast<int>(group) == call.group || !(made || group == 0))
          continue;
        if (call.root >= static_cast<int>(members.size())) continue;
        plant.other = group;
        return true;
      }
      return false;
    case PlantKind::order:
      plant.other = next_of(mine.actions, plant.action);
      return plant.other != 0 && call.form != Form::batch &&
             may_exchange(mine.actions, plant.action, plant.other);
    case PlantKind::missing:
    case PlantKind::doubled:
      return true;
    case PlantKind::unwaited:
      return call.form != Form::split;
    case PlantKind::write:
    case PlantKind::write_raw:
    case PlantKind::same_value:
    case PlantKind::read:
    case PlantKind::read_raw:
    case PlantKind::read_input: {
      const std::vector<BufferUse> uses = uses_of(plan, plant.rank, call);
      const BufferUse* const use = use_for(plant.kind, uses);
      // What is under way one behind the other on one buffer is not hidden.
      const bool own = plant.kind == PlantKind::read_input || plant.kind == PlantKind::read_raw;
      return use != nullptr && !(own && shares_buffer(mine, plant.action, use->part.buffer));
    }
    case PlantKind::reuse:
      plant.other = sharer_of(mine, plant.action);
      return plant.other != 0;
  }
  return false;
}

// --- Changing ----------------------------------------------------------------------------------

// A buffer like that of `part`, with so many more elements; of the given type.
Elements fresh(RankPlan& mine, const Elements& part, std::int64_t more, DType dtype) {
  if (part.buffer < 0) return part;
  mine.buffers.push_back({part.count + more, dtype});
  return {static_cast<int>(mine.buffers.size()) - 1, 0, part.count + more};
}

DType dtype_in(const RankPlan& mine, const Elements& part) {
  return part.buffer < 0 ? DType::fp32 : mine.buffers[static_cast<std::size_t>(part.buffer)].dtype;
}

void change_kind(RankPlan& mine, PlannedCall& call) {
  if (call.form != Form::collective) {
    call.halves.front().sends = !call.halves.front().sends;
    return;
  }
  const bool reduces = call.kind == CollectiveKind::all_reduce;
  if (!row_of(call.kind).in_place()) {
    const Elements whole = call.output.buffer >= 0 ? call.output : call.input;
    call.output = whole.buffer >= 0 ? whole : fresh(mine, {0, 0, 1}, 0, DType::fp32);
  }
  call.kind = reduces ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
  call.root = 0;
  call.counts.clear();
}

void change_count(RankPlan& mine, PlannedCall& call, int member, int size) {
  if (call.form != Form::collective) {
    Elements& data = call.halves.front().data;
    data = fresh(mine, data, 1, dtype_in(mine, data));
    return;
  }
  const CollectiveRow& row = row_of(call.kind);
  const DType dtype = dtype_in(mine, call.output.buffer >= 0 ? call.output : call.input);
  if (row.path == CollectivePath::pairs) {
    ++call.counts[static_cast<std::size_t>((member + 1) % size)];
    call.input = fresh(mine, call.input, 1, dtype);
    return;
  }
  // A chunk more of one element; the full buffer has one more for each member.
  const bool whole_output = row.output == BufferPart::whole;
  const bool whole_input = row.input == BufferPart::whole && !row.in_place();
  call.output = fresh(mine, call.output, whole_output && !row.in_place() ? size : 1, dtype);
  call.input = fresh(mine, call.input, whole_input ? size : 1, dtype);
}

void change_dtype(RankPlan& mine, PlannedCall& call) {
  const auto other = [&](Elements& part) {
    const DType dtype = dtype_in(mine, part) == DType::fp32 ? DType::int32 : DType::fp32;
    part = fresh(mine, part, 0, dtype);
  };
  if (call.form == Form::batch) return other(call.halves.front().data);
  other(call.output);
  other(call.input);
  for (PlannedHalf& half : call.halves) other(half.data);
}

void insert_touch(const ProgramPlan& plan, RankPlan& mine, const Plant& plant, Action::Kind kind) {
  const std::vector<BufferUse> uses = uses_of(plan, plant.rank, mine.actions[plant.action].call);
  Action touch{.kind = kind,
               .work = mine.actions[plant.action].work,
               .part = use_for(plant.kind, uses)->part};
  touch.call.statement = mine.actions[plant.action].call.statement;
  mine.actions.insert(mine.actions.begin() + static_cast<std::ptrdiff_t>(plant.action) + 1, touch);
}

void leave_out(RankPlan& mine, std::size_t action, bool call, bool wait) {
  const int work = mine.actions[action].work;
  const bool split = mine.actions[action].call.form == Form::split;
  if (wait && !split) {
    std::erase_if(mine.actions, [&](const Action& other) {
      return other.kind == Action::Kind::wait && other.work == work;
    });
  }
  // Waits stand behind: the call is where it was.
  if (call) mine.actions.erase(mine.actions.begin() + static_cast<std::ptrdiff_t>(action));
}

void make_twice(RankPlan& mine, std::size_t action) {
  constexpr int kOtherWorks = 1000;
  Action again = mine.actions[action];
  again.work += kOtherWorks;
  auto place = mine.actions.begin() + static_cast<std::ptrdiff_t>(action) + 1;
  place = mine.actions.insert(place, again);
  if (again.call.form == Form::split) return;
  mine.actions.insert(place + 1, {.kind = Action::Kind::wait, .work = again.work});
}

// Leaves out what the rank does with the buffers of two calls before it has waited for both.
void leave_alone_until_waited(RankPlan& mine, std::size_t one, std::size_t other) {
  const Action first = mine.actions[one];
  const Action second = mine.actions[other];
  int waits = 0;
  std::erase_if(mine.actions, [&](const Action& action) {
    if (action.kind == Action::Kind::call) return false;
    if (action.kind == Action::Kind::wait) {
      waits += action.work == first.work || action.work == second.work ? 1 : 0;
      return false;
    }
    return waits < 2 && (share_buffers(action, first.call) || share_buffers(action, second.call));
  });
}

// Both stay where they are in the order of works, so that the rank waits as before. A split has no
// work: the later call comes before the earlier one.
void exchange(RankPlan& mine, std::size_t one, std::size_t other) {
  PlannedCall& first = mine.actions[one].call;
  PlannedCall& second = mine.actions[other].call;
  if (first.form != Form::split && second.form != Form::split) {
    std::swap(first, second);
    std::swap(first.after, second.after);
    leave_alone_until_waited(mine, one, other);
    return;
  }
  const auto begin = mine.actions.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(other) + 1;
  std::rotate(begin + static_cast<std::ptrdiff_t>(one), end - 1, end);
}

int next_member(const ProgramPlan& plan, const Plant& plant, const PlannedCall& call, int peer) {
  const int size = call.form == Form::tagged ? static_cast<int>(plan.ranks.size())
                                             : size_of_group(plan, call, plant.rank);
  const int next = (peer + 1) % size;
  if (call.form == Form::tagged) return next;
  const std::vector<int>& members = plan.members(call.group, plant.rank);
  // Not itself: that would be another bug.
  return members[static_cast<std::size_t>(next)] == plant.rank ? (next + 1) % size : next;
}

}  // namespace

const char* name_of(PlantKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

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

ProgramPlan planted(const ProgramPlan& plan, const Plant& plant) {
  constexpr int kNobodysTag = 1000;
  ProgramPlan changed = plan;
  RankPlan& mine = changed.ranks[static_cast<std::size_t>(plant.rank)];
  PlannedCall& call = mine.actions[plant.action].call;
  const int size = size_of_group(plan, call, plant.rank);
  switch (plant.kind) {
    case PlantKind::kind:
      change_kind(mine, call);
      break;
    case PlantKind::count: {
      const std::vector<int>& members = plan.members(call.group, plant.rank);
      const auto at = std::ranges::find(members, plant.rank) - members.begin();
      change_count(mine, call, static_cast<int>(at), size);
      break;
    }
    case PlantKind::dtype:
      change_dtype(mine, call);
      break;
    case PlantKind::op:
      call.op = call.op == ReduceOp::sum ? ReduceOp::max : ReduceOp::sum;
      break;
    case PlantKind::root:
      call.root = (call.root + 1) % size;
      break;
    case PlantKind::peer:
      call.halves.front().peer = next_member(plan, plant, call, call.halves.front().peer);
      break;
    case PlantKind::tag:
      call.tag = call.tag == kAnyTag ? kNobodysTag : call.tag + kNobodysTag;
      break;
    case PlantKind::label:
      ++call.label;
      break;
    case PlantKind::group:
      call.group = static_cast<int>(plant.other);
      break;
    case PlantKind::order:
      exchange(mine, plant.action, plant.other);
      break;
    case PlantKind::missing:
      leave_out(mine, plant.action, true, true);
      break;
    case PlantKind::doubled:
      make_twice(mine, plant.action);
      break;
    case PlantKind::unwaited:
      leave_out(mine, plant.action, false, true);
      break;
    case PlantKind::write:
      insert_touch(plan, mine, plant, Action::Kind::write);
      break;
    case PlantKind::write_raw:
      insert_touch(plan, mine, plant, Action::Kind::write_raw);
      break;
    case PlantKind::same_value:
      insert_touch(plan, mine, plant, Action::Kind::write_same);
      break;
    case PlantKind::read_raw:
      insert_touch(plan, mine, plant, Action::Kind::read_raw);
      break;
    case PlantKind::read:
    case PlantKind::read_input:
      insert_touch(plan, mine, plant, Action::Kind::read);
      break;
    case PlantKind::reuse:
      mine.actions[plant.other].call.output = call.output;
      break;
  }
  return changed;
}

}  // namespace shardsim::drawn
