#include "tests/harness_drawn/plant.hpp"

#include <algorithm>
#include <array>

#include "tests/harness_drawn/plant_uses.hpp"

namespace shardsim::drawn {

namespace {

using Form = PlannedCall::Form;

constexpr std::array<const char*, kPlantKinds> kNames = {
    "kind",      "count",      "dtype", "op",       "root",       "peer",     "tag",
    "label",     "group",      "order", "missing",  "doubled",    "unwaited", "write",
    "write_raw", "same_value", "read",  "read_raw", "read_input", "reuse"};

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

// A change of the arguments alone. False: the change is of another kind.
bool change_arguments(const ProgramPlan& plan, const Plant& plant, RankPlan& mine) {
  constexpr int kNobodysTag = 1000;
  PlannedCall& call = mine.actions[plant.action].call;
  const int size = size_of_group(plan, call, plant.rank);
  switch (plant.kind) {
    case PlantKind::kind:
      change_kind(mine, call);
      return true;
    case PlantKind::count: {
      const std::vector<int>& members = plan.members(call.group, plant.rank);
      const auto at = std::ranges::find(members, plant.rank) - members.begin();
      change_count(mine, call, static_cast<int>(at), size);
      return true;
    }
    case PlantKind::dtype:
      change_dtype(mine, call);
      return true;
    case PlantKind::op:
      call.op = call.op == ReduceOp::sum ? ReduceOp::max : ReduceOp::sum;
      return true;
    case PlantKind::root:
      call.root = (call.root + 1) % size;
      return true;
    case PlantKind::peer:
      call.halves.front().peer = next_member(plan, plant, call, call.halves.front().peer);
      return true;
    case PlantKind::tag:
      call.tag = call.tag == kAnyTag ? kNobodysTag : call.tag + kNobodysTag;
      return true;
    case PlantKind::label:
      ++call.label;
      return true;
    case PlantKind::group:
      call.group = static_cast<int>(plant.other);
      return true;
    default:
      return false;
  }
}

}  // namespace

const char* name_of(PlantKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

ProgramPlan planted(const ProgramPlan& plan, const Plant& plant) {
  ProgramPlan changed = plan;
  RankPlan& mine = changed.ranks[static_cast<std::size_t>(plant.rank)];
  if (change_arguments(plan, plant, mine)) return changed;
  const PlannedCall& call = mine.actions[plant.action].call;
  switch (plant.kind) {
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
    case PlantKind::reuse:
      mine.actions[plant.other].call.output = call.output;
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
    default:
      insert_touch(plan, mine, plant, Action::Kind::read);
      break;
  }
  return changed;
}

}  // namespace shardsim::drawn
