#include "tests/harness_drawn/rank_plan.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "sim/kernel/hash.hpp"

namespace shardsim::drawn {

namespace {

constexpr int kCuts = 6;
constexpr int kKinds = 9;  // All collectives but split.
constexpr int kOps = 5;

std::uint64_t mixed(int a, int b, int c) {
  RollingHash hash;
  hash.add(std::int64_t{a});
  hash.add(std::int64_t{b});
  hash.add(std::int64_t{c});
  return hash.value() >> 7U;
}

// The color of a member at `place` of `size`.
int color_of(int cut, int place, int size) {
  switch (cut % kCuts) {
    case 0:
      return place % 2;
    case 1:
      return place / 2;
    case 2:
      return place < (size + 1) / 2 ? 0 : 1;
    case 3:
      return place % 2 == 0 ? 0 : kNoColor;
    case 4:
      return 0;
    default:
      return place;
  }
}

class Planner {
 public:
  explicit Planner(const DrawnProgram& program)
      : program_(program), states_(static_cast<std::size_t>(program.ranks)) {
    plan_.ranks.resize(states_.size());
    std::vector<int> everyone(states_.size());
    std::iota(everyone.begin(), everyone.end(), 0);
    plan_.groups.emplace_back(states_.size(), everyone);
  }

  ProgramPlan run() {
    for (const Statement& statement : program_.statements) {
      ++number_;
      plan(statement);
      for (int rank = 0; rank < program_.ranks; ++rank) add_waits(rank, number_);
    }
    for (int rank = 0; rank < program_.ranks; ++rank) add_waits(rank, number_ + 100);
    return std::move(plan_);
  }

 private:
  struct Pending {
    int due = 0;
    std::uint64_t order = 0;
    int work = 0;
    PlannedCall call;
    friend bool operator<(const Pending& a, const Pending& b) {
      return a.due != b.due ? a.due < b.due : a.order < b.order;
    }
  };
  struct Buffer {
    BufferSize size;
    std::set<int> users;  // Works that are under way.
    int stream = -1;      // The group whose collectives they all are.
  };
  struct State {
    std::vector<Buffer> buffers;
    std::vector<Pending> pending;
    std::vector<int> taken;  // Buffers of the call that is being made.
    int last = -1;           // A work that the next one may follow.
    int num_works = 0;
  };
  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }

  // --- Statements ------------------------------------------------------------------------------

  void plan(const Statement& statement) {
    if (statement.kind == Statement::Kind::tagged) return plan_tagged(statement);
    if (statement.kind == Statement::Kind::gather_any) return plan_gather(statement);
    const int group = statement.group % static_cast<int>(plan_.groups.size());
    if (statement.kind == Statement::Kind::split) return plan_split(statement, group);
    for (int rank = 0; rank < program_.ranks; ++rank) {
      const std::vector<int> members = plan_.members(group, rank);
      if (members.empty()) continue;
      const auto at = std::find(members.begin(), members.end(), rank);
      const Place place{.rank = rank,
                        .group = group,
                        .member = static_cast<int>(at - members.begin()),
                        .size = static_cast<int>(members.size())};
      if (statement.kind == Statement::Kind::collective) plan_collective(statement, place);
      if (statement.kind == Statement::Kind::message) plan_message(statement, place);
      if (statement.kind == Statement::Kind::exchange) plan_exchange(statement, place);
    }
  }

  struct Place {
    int rank = 0;
    int group = 0;
    int member = 0;
    int size = 1;
  };

  void plan_split(const Statement& statement, int group) {
    const int made = static_cast<int>(plan_.groups.size());
    std::vector<std::vector<int>> groups(states_.size());
    for (int rank = 0; rank < program_.ranks; ++rank) {
      const std::vector<int>& members = plan_.members(group, rank);
      if (members.empty()) continue;
      const int size = static_cast<int>(members.size());
      const auto color = [&](int place) { return color_of(statement.form, place, size); };
      const auto at = std::find(members.begin(), members.end(), rank);
      const int mine = static_cast<int>(at - members.begin());
      const bool reversed = statement.form % kCuts == 4;
      for (int place = 0; place < size && color(mine) != kNoColor; ++place) {
        if (color(place) != color(mine)) continue;
        std::vector<int>& part = groups[static_cast<std::size_t>(rank)];
        part.insert(reversed ? part.begin() : part.end(), members[static_cast<std::size_t>(place)]);
      }
      PlannedCall call = begin_call(PlannedCall::Form::split, group, statement);
      call.color = color(mine);
      call.key = reversed ? -mine : mine;
      call.makes = made;
      plan_.ranks[static_cast<std::size_t>(rank)].actions.push_back({.call = call});
    }
    plan_.groups.push_back(std::move(groups));
  }

  void plan_collective(const Statement& statement, const Place& place) {
    PlannedCall call = begin_call(PlannedCall::Form::collective, place.group, statement);
    call.kind = static_cast<CollectiveKind>(statement.form % kKinds);
    call.op = static_cast<ReduceOp>(statement.op % kOps);
    call.root = statement.root % place.size;
    const CollectiveRow& row = row_of(call.kind);
    const auto chunk = [&](int member) {
      return std::int64_t{statement.count} + (statement.uneven ? member % 3 : 0);
    };
    const auto part = [&](std::int64_t count) { return take(statement, place, count); };
    if (row.path == CollectivePath::pairs) {
      const auto cell = [&](int from, int to) {
        return std::int64_t{statement.count} + (statement.uneven ? (from * 3 + to * 5) % 4 : 0);
      };
      for (int other = 0; other < place.size; ++other) {
        call.counts.push_back(cell(place.member, other));
        call.recv_counts.push_back(cell(other, place.member));
      }
      call.input = part(std::accumulate(call.counts.begin(), call.counts.end(), std::int64_t{0}));
      call.output =
          part(std::accumulate(call.recv_counts.begin(), call.recv_counts.end(), std::int64_t{0}));
    } else if (row.in_place()) {
      call.output = part(chunk(0));
    } else if (row.in_chunks()) {
      std::int64_t whole = 0;
      std::int64_t before = 0;
      for (int member = 0; member < place.size; ++member) {
        if (statement.uneven) call.counts.push_back(chunk(member));
        if (member < place.member) before += chunk(member);
        whole += chunk(member);
      }
      const bool at_root = row.root == RootRole::none || place.member == call.root;
      const Elements full = at_root ? part(whole) : Elements();
      const std::int64_t own = chunk(place.member);
      const bool inside = statement.in_place && at_root;
      const Elements mine = inside ? Elements{full.buffer, before, own} : part(own);
      const bool gathers = row.output == BufferPart::whole;
      call.output = gathers ? full : mine;
      call.input = gathers ? mine : full;
    }
    add(statement, place.rank, call);
  }

  void plan_message(const Statement& statement, const Place& place) {
    if (place.size == 1) return;
    const int from = statement.root % place.size;
    const int to = (from + 1 + statement.offset % (place.size - 1)) % place.size;
    if (place.member != from && place.member != to) return;
    PlannedCall call = begin_call(PlannedCall::Form::message, place.group, statement);
    const bool sends = place.member == from;
    call.halves.push_back({sends, sends ? to : from, take(statement, place, statement.count)});
    add(statement, place.rank, call);
  }

  void plan_exchange(const Statement& statement, const Place& place) {
    PlannedCall call = begin_call(PlannedCall::Form::batch, place.group, statement);
    const int step = place.size == 1 ? 0 : 1 + statement.offset % (place.size - 1);
    const int right = (place.member + step) % place.size;
    const int left = (place.member + 2 * place.size - step) % place.size;
    const auto data = [&](int more) { return take(statement, place, statement.count + more); };
    call.halves = {{true, right, data(0)},
                   {false, left, data(0)},
                   {false, right, data(1)},
                   {true, left, data(1)}};
    add(statement, place.rank, call);
  }

  void plan_half(const Statement& statement, int rank, bool sends, int peer) {
    PlannedCall call = begin_call(PlannedCall::Form::tagged, 0, statement);
    call.tag = number_;
    const Place place{.rank = rank, .group = -1};
    call.halves.push_back({sends, peer, take(statement, place, statement.count)});
    add(statement, rank, call);
  }

  void plan_tagged(const Statement& statement) {
    const int from = statement.root % program_.ranks;
    const int to = (from + statement.offset) % program_.ranks;
    plan_half(statement, from, true, to);
    plan_half(statement, to, false, from);
    if (statement.form % 3 == 0) {
      plan_.ranks[static_cast<std::size_t>(to)].actions.back().call.tag = kAnyTag;
    }
  }

  void plan_gather(const Statement& statement) {
    const int to = statement.root % program_.ranks;
    for (int rank = 0; rank < program_.ranks; ++rank) {
      if (rank == to) continue;
      plan_half(statement, rank, true, to);
      plan_half(statement, to, false, kAnySource);
    }
  }

  // --- Calls and waits -------------------------------------------------------------------------

  [[nodiscard]] PlannedCall begin_call(PlannedCall::Form form, int group,
                                       const Statement& statement) const {
    PlannedCall call;
    call.form = form;
    call.group = group;
    call.statement = number_;
    call.label = statement.label;
    if (statement.scalar) call.traffic = TrafficClass::scalar;
    return call;
  }

  // A buffer that nothing uses, or only what comes before on the stream of the group.
  Elements take(const Statement& statement, const Place& place, std::int64_t count) {
    State& mine = state(place.rank);
    const DType dtype = dtype_of(statement.dtype);
    const bool streams = statement.kind == Statement::Kind::collective;
    for (int index = 0; statement.reuse && index < static_cast<int>(mine.buffers.size()); ++index) {
      Buffer& buffer = mine.buffers[static_cast<std::size_t>(index)];
      if (buffer.size.count != count || buffer.size.dtype != dtype) continue;
      if (std::find(mine.taken.begin(), mine.taken.end(), index) != mine.taken.end()) continue;
      if (!buffer.users.empty() && (!streams || buffer.stream != place.group)) continue;
      return own(mine, index, streams ? place.group : -1);
    }
    mine.buffers.push_back({{count, dtype}, {}, -1});
    return own(mine, static_cast<int>(mine.buffers.size()) - 1, streams ? place.group : -1);
  }

  static Elements own(State& mine, int index, int stream) {
    Buffer& buffer = mine.buffers[static_cast<std::size_t>(index)];
    buffer.stream = stream;
    mine.taken.push_back(index);
    return {index, 0, buffer.size.count};
  }

  void add(const Statement& statement, int rank, PlannedCall call) {
    State& mine = state(rank);
    RankPlan& plan = plan_.ranks[static_cast<std::size_t>(rank)];
    const int work = mine.num_works++;
    const bool tagged = call.form == PlannedCall::Form::tagged;
    if (statement.after && !tagged) call.after = mine.last;
    for (const int index : mine.taken) {
      mine.buffers[static_cast<std::size_t>(index)].users.insert(work);
    }
    mine.taken.clear();
    if (!tagged) mine.last = work;
    const auto delay = static_cast<int>(mixed(statement.waits, rank, 1) %
                                        static_cast<unsigned>(statement.delay + 1));
    mine.pending.push_back({number_ + delay, mixed(statement.waits, rank, work), work, call});
    plan.actions.push_back({.work = work, .call = std::move(call)});
    const auto& all = mine.buffers;
    plan.buffers.clear();
    for (const Buffer& buffer : all) plan.buffers.push_back(buffer.size);
  }

  void add_waits(int rank, int due) {
    State& mine = state(rank);
    std::sort(mine.pending.begin(), mine.pending.end());
    std::size_t done = 0;
    for (; done < mine.pending.size() && mine.pending[done].due <= due; ++done) {
      const Pending& pending = mine.pending[done];
      std::vector<Action>& actions = plan_.ranks[static_cast<std::size_t>(rank)].actions;
      actions.push_back({.kind = Action::Kind::wait, .work = pending.work});
      if (mine.last == pending.work) mine.last = -1;
      for (Buffer& buffer : mine.buffers) buffer.users.erase(pending.work);
      touch(mine, pending.call.output, Action::Kind::read, actions);
      touch(mine, pending.call.input, Action::Kind::write, actions);
      for (const PlannedHalf& half : pending.call.halves) {
        touch(mine, half.data, half.sends ? Action::Kind::write : Action::Kind::read, actions);
      }
    }
    mine.pending.erase(mine.pending.begin(),
                       mine.pending.begin() + static_cast<std::ptrdiff_t>(done));
  }

  static void touch(const State& mine, const Elements& part, Action::Kind kind,
                    std::vector<Action>& actions) {
    if (part.count == 0) return;
    if (!mine.buffers[static_cast<std::size_t>(part.buffer)].users.empty()) return;
    actions.push_back({.kind = kind, .part = part});
  }

  const DrawnProgram& program_;
  ProgramPlan plan_;
  std::vector<State> states_;
  int number_ = 0;
};

}  // namespace

ProgramPlan plan_of(const DrawnProgram& program) { return Planner(program).run(); }

}  // namespace shardsim::drawn
