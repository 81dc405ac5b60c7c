#include "backends/replay/replay_world.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/replay/replay_rank.hpp"
#include "backends/trace_hash.hpp"

namespace shardsim {

// --- Ranks -------------------------------------------------------------------------------------

ReplayWorld::ReplayWorld(ReplayOptions options, const RankPrograms& programs)
    : World(options.cluster),
      options_(std::move(options)),
      programs_(programs),
      network_(make_network_model(cluster_)),
      rules_(cluster_.device.stream_rules()),
      in_order_(network_->depends_on_order()) {
  for (int rank = 0; rank < num_ranks(); ++rank) states_.emplace_back(rank);
  for (const int rank : options_.traced_ranks) this->rank(rank).start_trace();
}

ReplayWorld::~ReplayWorld() = default;

ReplayRank::ReplayRank(RankState& state, const RankProgram& program,
                       const std::vector<Price>& prices)
    : state(state),
      program(program),
      prices(prices),
      streams(program.groups.size()),
      works(program.num_works),
      allocations(program.num_allocations),
      marks(program.num_allocations) {}

const std::vector<Price>& ReplayWorld::prices_of(int rank) {
  const double slowdown = cluster_.faults == nullptr ? 1.0 : cluster_.faults->slowdown_of(rank);
  const auto [found, is_new] = prices_.try_emplace(slowdown);
  if (is_new) {
    const ProgramTables& tables = *programs_.programs.front().tables;
    for (std::uint32_t row = 0; row < tables.num_operations(); ++row) {
      const ComputeOp& op = tables.operation(row);
      found->second.push_back(
          {cluster_.device.price(op, slowdown), cluster_.device.issue_price(op)});
    }
  }
  return found->second;
}

bool ReplayWorld::is_watched(RankState& state) {
  return state.trace() != nullptr || state.ledger().has_listener();
}

void ReplayWorld::use_code(ReplayRank& rank) {
  const RankProgram* const program = &rank.program;
  rank.digest = &digests_.try_emplace(program, *program).first->second;
  rank.code =
      &codes_.try_emplace({program, &rank.prices}, *program, rank.prices, rules_).first->second;
  executed_flops_[static_cast<std::size_t>(rank.state.index())] = rank.digest->flops();
  for (const std::uint32_t row : rank.digest->tallies()) {
    const ProgramTally& tallied = program->tables->tally(row);
    tally(tallied.name, tallied.first, tallied.amounts);
  }
}

const MemoryLedger& ReplayWorld::ledger(int rank) const {
  const ReplayRank& replayed = ranks_[static_cast<std::size_t>(rank)];
  return replayed.digest == nullptr ? replayed.state.ledger() : replayed.digest->ledger();
}

const MemoryLedger& ReplayWorld::host_ledger(int rank) const {
  const ReplayRank& replayed = ranks_[static_cast<std::size_t>(rank)];
  return replayed.digest == nullptr ? replayed.state.host_ledger() : replayed.digest->host_ledger();
}

RankState& ReplayWorld::rank(int rank) { return states_[static_cast<std::size_t>(rank)]; }
const RankState& ReplayWorld::rank(int rank) const {
  return states_[static_cast<std::size_t>(rank)];
}

std::uint64_t ReplayWorld::trace_hash() const { return trace_hash_of(states_); }

void ReplayWorld::run() {
  std::vector<int> everyone(states_.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  const RankProgram& any = programs_.programs.front();
  ReplayGroup& world = add_group(0, 0, any.groups.front().name, std::move(everyone));
  world.num_joined = world.size();
  for (RankState& state : states_) {
    const auto index = static_cast<std::size_t>(state.index());
    const RankProgram& program =
        programs_.programs[static_cast<std::size_t>(programs_.of_rank[index])];
    ReplayRank& rank = ranks_.emplace_back(state, program, prices_of(state.index()));
    if (!is_watched(state)) use_code(rank);
    open_stream(rank, 0, world, state.index());
    ready_.push_back(&rank);
  }
  std::ranges::reverse(ready_);  // Rank 0 first.
  while (true) {
    while (!ready_.empty()) {
      ReplayRank& rank = *ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    if (launches_.empty()) break;
    launch_next();
  }
  require_ended();
  retire();
}

void ReplayWorld::advance(ReplayRank& rank) {
  const std::vector<ProgramStep>& steps = rank.steps();
  while (rank.next_step < steps.size()) {
    if (!act(rank, steps[rank.next_step])) return;
    ++rank.next_step;
  }
  if (rank.digest != nullptr) rank.state.hash().stretch() = rank.digest->last_stretch();
  if (options_.on_progress) options_.on_progress();
}

bool ReplayWorld::act(ReplayRank& rank, const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  const ProgramTables& tables = *rank.program.tables;
  switch (step.kind) {
    case Kind::compute:
      if (rank.code != nullptr) {
        rank.state.clock().run(rank.code->stretches[step.row]);
      } else {
        compute(rank, step.row);
      }
      break;
    case Kind::allocate:
      allocate(rank, step);
      break;
    case Kind::release:
      release(rank, step.slot);
      break;
    case Kind::follow:
      rank.follows = rank.works[step.slot].operation;
      break;
    case Kind::post:
      post(rank, step);
      break;
    case Kind::wait: {
      const ReplayRank::Posted& posted = rank.works[step.slot];
      if (!await(rank, *posted.operation)) return false;
      finish_wait(rank, rank.streams[posted.stream], *posted.operation);
      break;
    }
    case Kind::join:
      return join(rank, step.row);
    case Kind::synchronize:
      rank.state.clock().synchronize();
      break;
    case Kind::tally: {
      const ProgramTally& tallied = tables.tally(step.row);
      tally(tallied.name, tallied.first, tallied.amounts);
      break;
    }
    case Kind::mark:
      if (options_.on_mark) options_.on_mark(rank.state.index(), tables.mark(step.row));
      break;
  }
  return true;
}

void ReplayWorld::compute(ReplayRank& rank, std::uint32_t row) {
  const ComputeOp& op = rank.program.tables->operation(row);
  const Price& price = rank.prices[row];
  add_operation(rank.state.hash(), op);
  rank.state.compute(op.name, price.device, price.host, rules_);
  executed_flops_[static_cast<std::size_t>(rank.state.index())] += static_cast<double>(op.flops);
}

void ReplayWorld::allocate(ReplayRank& rank, const ProgramStep& step) {
  rank.allocations[step.slot] = step.row;
  const ProgramAllocation& allocation = rank.program.tables->allocation(step.row);
  const AllocationOwner owner(rank.marks[step.slot]);
  (allocation.on_host ? rank.state.host_ledger() : rank.state.ledger())
      .allocate(allocation.category, allocation.bytes);
}

void ReplayWorld::release(ReplayRank& rank, std::uint32_t slot) {
  const ProgramAllocation& allocation = rank.program.tables->allocation(rank.allocations[slot]);
  const AllocationOwner owner(rank.marks[slot]);
  (allocation.on_host ? rank.state.host_ledger() : rank.state.ledger())
      .release(allocation.category, allocation.bytes);
}

// --- Groups ------------------------------------------------------------------------------------

ReplayGroup& ReplayWorld::add_group(std::uint64_t path, std::uint64_t id, const std::string& name,
                                    std::vector<int> members) {
  return groups_.emplace_back(cluster_, path, id, name, std::move(members));
}

void ReplayWorld::open_stream(ReplayRank& rank, std::size_t place, ReplayGroup& group, int member) {
  ReplayStream& stream = rank.streams[place];
  stream.group = &group;
  stream.member = member;
  if (rank.state.trace() == nullptr) return;
  stream.track = static_cast<int>(rank.state.trace()->tracks.size());
  rank.state.trace()->tracks.push_back({.name = group.name, .slices = {}});
}

// All members name the split's group alike, so its call is one for all of them.
const ProgramCall& ReplayWorld::split_for(const std::string& name) {
  const auto found = splits_.find(name);
  if (found != splits_.end()) return found->second;
  return splits_.emplace(name, split_call(name)).first->second;
}

bool ReplayWorld::join(ReplayRank& rank, std::size_t place) {
  const ProgramGroup& made = rank.program.groups[place];
  ReplayStream& stream = rank.streams[static_cast<std::size_t>(made.parent)];
  const RankSpan members = made.members_for(rank.state.index());
  const bool joins = members.size > 0;
  const int color = joins ? members.rank(0) : kNoColor;
  const int key = joins ? members.member_of(stream.member) : 0;
  if (rank.splits == nullptr) {
    const ProgramCall& call = split_for(made.name);
    if (rank.code == nullptr) hash_call(rank.state.hash(), stream.group->path, call);
    rank.splits = &post_collective(rank, stream, call);
    stream.last = rank.splits;
    add_choice(rank.state.hash(), color, key);
  }
  if (!await(rank, *rank.splits)) return false;
  const std::int64_t sequence = rank.splits->sequence;
  finish_wait(rank, stream, *std::exchange(rank.splits, nullptr));
  if (joins) enter(rank, place, *stream.group, sequence, members, key);
  return true;
}

void ReplayWorld::enter(ReplayRank& rank, std::size_t place, ReplayGroup& parent,
                        std::int64_t sequence, const RankSpan& members, int key) {
  const int color = members.rank(0);
  ReplayGroup*& child = parent.children[{sequence, color}];
  if (child == nullptr) {
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(members.size));
    for (int i = 0; i < members.size; ++i) {
      ranks.push_back(parent.layout.members.at(static_cast<std::size_t>(members.rank(i))));
    }
    child =
        &add_group(path_of_child(parent.path, sequence), id_of_child(parent.id, sequence, color),
                   rank.program.groups[place].name, std::move(ranks));
  }
  const bool is_member = key >= 0 && key < child->size() &&
                         child->layout.members[static_cast<std::size_t>(key)] == rank.state.index();
  if (child->size() != members.size || !is_member) {
    throw ReplayEnded{"the members of group " + child->name + " are not those of its class"};
  }
  ++child->num_joined;
  open_stream(rank, place, *child, key);
}

void ReplayWorld::require_ended() const {
  for (const ReplayRank& rank : ranks_) {
    if (!rank.ended()) throw ReplayEnded{"some ranks wait for ever"};
  }
  for (const ReplayGroup& group : groups_) {
    if (group.num_joined == group.size()) continue;
    throw ReplayEnded{"not all members of group " + group.name + " have formed it"};
  }
}

}  // namespace shardsim
