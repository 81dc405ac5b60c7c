#include "backends/replay/replay_world.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "backends/replay/program_memory.hpp"
#include "backends/trace_hash.hpp"

namespace shardsim {

// --- Ranks -------------------------------------------------------------------------------------

ReplayWorld::ReplayWorld(ReplayOptions options, const RankPrograms& programs)
    : World(options.cluster, options.fold),
      options_(std::move(options)),
      programs_(programs),
      network_(make_network_model(cluster_)),
      rules_(cluster_.device.stream_rules()),
      in_order_(network_->depends_on_order()),
      has_constant_prices_(!in_order_ && !network_->depends_on_start()),
      gang_of_(running().size()),
      codes_(cluster_.device, programs, options_.codes, options_.hole_factor) {
  for (const int rank : running()) states_.emplace_back(rank);
  if (options_.fold != nullptr) {
    represented_.resize(running().size());
    for (const int place : options_.fold->place_of) ++represented_[static_cast<std::size_t>(place)];
  }
  for (const int rank : options_.traced_ranks) this->rank(rank).start_trace();
}

ReplayWorld::~ReplayWorld() = default;

ReplayGang::ReplayGang(const RankProgram& program, const std::vector<Price>& prices)
    : program(program), prices(prices), streams(program.groups.size()), works(program.num_works) {}

bool ReplayWorld::is_watched(RankState& state) {
  return state.trace() != nullptr || state.ledger().has_listener();
}

void ReplayWorld::use_code(ReplayGang& gang) {
  gang.digest = &codes_.digest(gang.program);
  gang.code =
      &codes_.code(gang.program, slowdown_of(gang.ranks.front()->index()), asked_[&gang.program]);
}

const ProgramDigest* ReplayWorld::digest_of(int rank) const {
  const ReplayGang* const gang = gang_of_[place_of(rank)];
  return gang == nullptr ? nullptr : gang->digest;
}

const MemoryLedger& ReplayWorld::ledger(int rank) const {
  const ProgramDigest* const digest = digest_of(rank);
  return digest == nullptr ? this->rank(rank).ledger() : digest->ledger();
}

const MemoryLedger& ReplayWorld::host_ledger(int rank) const {
  const ProgramDigest* const digest = digest_of(rank);
  return digest == nullptr ? this->rank(rank).host_ledger() : digest->host_ledger();
}

RankState& ReplayWorld::rank(int rank) { return states_[place_of(rank)]; }
const RankState& ReplayWorld::rank(int rank) const { return states_[place_of(rank)]; }

std::uint64_t ReplayWorld::trace_hash() const {
  if (!options_.hashes_all) return trace_hash_of(states_);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(num_ranks()));
  for (const RankState& state : states_) {
    hashes[static_cast<std::size_t>(state.index())] = state.hash().value();
  }
  for (const ReplayGang& gang : gangs_) {
    for (std::size_t member = 0; member < gang.represented.size(); ++member) {
      const RankHash& leader = gang.ranks[member]->hash();
      for (const Represented& other : gang.represented[member]) {
        hashes[static_cast<std::size_t>(other.rank)] = other.hash.beside(leader).value();
      }
    }
  }
  RollingHash hash;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    hash.add(hashes[static_cast<std::size_t>(rank)]);
    hash.add(this->rank(rank).now().picoseconds());
  }
  return hash.value();
}

// --- Memory ------------------------------------------------------------------------------------

class ReplayWorld::ProgramWatch final : public WatchedMemory {
 public:
  [[nodiscard]] DeviceMemoryUse use() const override { return found; }
  DeviceMemoryUse found;
};

std::unique_ptr<WatchedMemory> ReplayWorld::watch_memory(int rank, const DeviceRoom& room) {
  if (is_watched(this->rank(rank))) return World::watch_memory(rank, room);
  auto watch = std::make_unique<ProgramWatch>();
  watched_.push_back({rank, room, watch.get()});
  return watch;
}

void ReplayWorld::find_memory() {
  std::map<std::pair<const RankProgram*, DeviceRoom>, ProgramMemory> known;
  ProgramMemories memories;
  for (Watched& watched : watched_) {
    const RankProgram* const program = &programs_.program_of(watched.rank);
    const auto [found, is_new] = known.try_emplace({program, watched.room});
    if (is_new) found->second = memories.find(*program, watched.room);
    watched.watch->found = found->second.use;
    watched.peak_step = found->second.peak_step;
    asked_[program].insert(watched.peak_step);
  }
}

void ReplayWorld::ask_for_peaks() {
  for (const Watched& watched : watched_) {
    ReplayGang& gang = *gang_of_[place_of(watched.rank)];
    const std::set<std::size_t>& asked = asked_[&gang.program];
    const auto which = std::distance(asked.begin(), asked.find(watched.peak_step));
    const auto member = std::ranges::find(gang.ranks, &rank(watched.rank));
    gang.questions.push_back({.step = gang.code->asked[static_cast<std::size_t>(which)],
                              .member = static_cast<std::size_t>(member - gang.ranks.begin()),
                              .answer = &watched.watch->found.peak.time});
  }
  for (ReplayGang& gang : gangs_) {
    std::ranges::sort(gang.questions, std::greater(), &ReplayGang::Question::step);
  }
}

void ReplayWorld::answer(ReplayGang& gang) {
  const ReplayGang::Question& question = gang.questions.back();
  *question.answer = gang.members[question.member].clock.now();
  gang.questions.pop_back();
}

// --- Going on ----------------------------------------------------------------------------------

// Where the network depends on the order of operations, ranks do not wait for others of a gang.
void ReplayWorld::make_gangs() {
  std::map<std::pair<const RankProgram*, const std::vector<Price>*>, ReplayGang*> gangs;
  for (RankState& state : states_) {
    const std::size_t place = place_of(state.index());
    const RankProgram& program = programs_.program_of(state.index());
    const std::vector<Price>& prices = codes_.prices(slowdown_of(state.index()));
    const bool watched = is_watched(state);
    ReplayGang* alone = nullptr;
    ReplayGang*& gang = watched || in_order_ ? alone : gangs[{&program, &prices}];
    const bool may_begin = state.index() % programs_.neighbours == 0;
    if (gang == nullptr || (gang->size() >= ReplayGang::kEnoughMembers && may_begin)) {
      gang = &gangs_.emplace_back(program, prices);
      gang->number = gangs_.size() - 1;
      gang->ranks.push_back(&state);
      if (!watched) use_code(*gang);
    } else {
      gang->ranks.push_back(&state);
    }
    if (!watched) gang->members.emplace_back();
    if (!program.has_one_stream()) add_device(*gang);
    gang_of_[place] = gang;
    if (watched) {
      gang->allocations.resize(program.num_allocations);
      gang->marks.resize(program.num_allocations);
      continue;
    }
    executed_flops_[place] = gang->digest->flops();
  }
  if (options_.hashes_all) {
    std::vector<std::vector<int>> by(running().size());
    for (int rank = 0; rank < num_ranks(); ++rank) {
      if (!runs(rank)) by[place_of(rank)].push_back(rank);
    }
    for (ReplayGang& gang : gangs_) represent(gang, by);
  }
  for (const ReplayGang& gang : gangs_) {
    if (gang.digest == nullptr) continue;  // It counts step by step.
    for (const std::uint32_t row : gang.digest->tallies()) {
      const ProgramTally& tallied = gang.program.tables->tally(row);
      tally(tallied.name, tallied.first, tallied.amounts, num_represented(gang));
    }
  }
}

void ReplayWorld::represent(ReplayGang& gang, const std::vector<std::vector<int>>& by) {
  for (const RankState* state : gang.ranks) {
    std::vector<Represented>& others = gang.represented.emplace_back();
    for (const int rank : by[place_of(state->index())]) {
      others.push_back({.rank = rank});
      others.back().places.assign(gang.program.groups.size(), -1);
      others.back().places.front() = rank;
    }
  }
}

// How many ranks do what the gang's members do, these included.
std::int64_t ReplayWorld::num_represented(const ReplayGang& gang) const {
  std::int64_t sum = 0;
  for (const RankState* rank : gang.ranks) {
    sum += represented_.empty() ? 1 : represented_[place_of(rank->index())];
  }
  return sum;
}

void ReplayWorld::run() {
  std::vector<int> everyone(static_cast<std::size_t>(num_ranks()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const RankProgram& any = programs_.programs.front();
  ReplayGroup& world = add_group(0, 0, any.groups.front().name, std::move(everyone), {});
  world.num_joined = world.num_running;
  find_memory();
  make_gangs();
  ask_for_peaks();
  if (options_.lanes != nullptr) {
    if (!has_constant_prices_) throw ReplayEnded{"prices depend on when operations start"};
    if (!std::ranges::all_of(programs_.programs, &RankProgram::has_one_stream)) {
      throw ReplayEnded{"draws of faults have one stream per device, and programs have several"};
    }
    options_.lanes->begin(cluster_, gangs_, codes_);
  }
  for (ReplayGang& gang : gangs_) {
    for (std::size_t member = 0; member < gang.size(); ++member) {
      open_stream(gang, 0, member, world, gang.ranks[member]->index());
    }
    ready_.push_back(&gang);
  }
  std::ranges::reverse(ready_);  // Rank 0 first.
  while (true) {
    while (!ready_.empty()) {
      ReplayGang& gang = *ready_.back();
      ready_.pop_back();
      advance(gang);
    }
    if (launches_.empty()) break;
    launch_next();
  }
  require_ended();
  retire();
}

void ReplayWorld::advance(ReplayGang& gang) {
  const std::vector<ProgramStep>& steps = gang.steps();
  while (gang.next_step < steps.size()) {
    while (!gang.questions.empty() && gang.questions.back().step == gang.next_step) answer(gang);
    const ProgramStep& step = steps[gang.next_step];
    if (!gang.devices.empty()) charge_streams(gang, step);
    if (!act(gang, step)) return;
    ++gang.next_step;
  }
  while (!gang.questions.empty()) answer(gang);
  settle_members(gang);
  if (options_.on_progress) options_.on_progress();
}

// Gives the ranks' states what their members have come to.
void ReplayWorld::settle_members(ReplayGang& gang) {
  for (std::size_t i = 0; i < gang.members.size(); ++i) {
    GangMember& member = gang.members[i];
    RankState& rank = *gang.ranks[i];
    rank.clock() = member.clock;
    rank.hash() = member.hash;
    if (gang.ended()) rank.hash().stretch() = gang.digest->last_stretch();
    add_busy(rank.index(), Time::from_picoseconds(std::exchange(member.busy, 0)));
  }
}

bool ReplayWorld::act(ReplayGang& gang, const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  const ProgramTables& tables = *gang.program.tables;
  switch (step.kind) {
    case Kind::compute:
      if (gang.code != nullptr) {
        const ClockStretch& stretch = gang.code->stretches[step.row];
        if (options_.lanes != nullptr) {
          options_.lanes->run(gang, step.row);
          break;
        }
        for (GangMember& member : gang.members) member.clock.run(stretch);
      } else {
        compute(gang, step.row);
      }
      break;
    case Kind::hole:
      pass_hole(gang, step.row);  // In code it is part of a stretch.
      break;
    case Kind::allocate:
      allocate(gang, step);
      break;
    case Kind::release:
      release(gang, step.slot);
      break;
    case Kind::follow:
      gang.follows = &gang.works[step.slot];
      break;
    case Kind::post:
      post(gang, step);
      break;
    case Kind::wait: {
      GangWork& work = gang.works[step.slot];
      if (!await(gang, work)) return false;
      finish_wait(gang, work);
      break;
    }
    case Kind::join:
      return join(gang, step.row);
    case Kind::synchronize:
      gang.ranks.front()->clock().synchronize();  // In code it is part of a stretch.
      break;
    case Kind::tally: {
      const ProgramTally& tallied = tables.tally(step.row);
      tally(tallied.name, tallied.first, tallied.amounts, num_represented(gang));
      break;
    }
    case Kind::mark:
      mark(gang, tables.mark(step.row));
      break;
    case Kind::use_stream:
    case Kind::record_event:
    case Kind::wait_event:
      act_on_streams(gang, step);
      break;
  }
  return true;
}

// --- One by one --------------------------------------------------------------------------------

void ReplayWorld::compute(ReplayGang& gang, std::uint32_t row) {
  RankState& rank = *gang.ranks.front();
  const ComputeOp& op = gang.program.tables->operation(row);
  const Price& price = gang.prices[row];
  add_operation(rank.hash(), op);
  rank.compute(op.name, price.device, price.host, rules_);
  executed_flops_[place_of(rank.index())] += static_cast<double>(op.flops);
}

void ReplayWorld::pass_hole(ReplayGang& gang, std::uint32_t row) {
  RankState& rank = *gang.ranks.front();
  const ProgramTables& tables = *gang.program.tables;
  const ProgramHole& hole = tables.hole(row);
  const Price& price = gang.prices[tables.num_operations() + row];
  add_hole(rank.hash(), hole);
  rank.compute(hole.name, price.device, price.host, rules_);
}

void ReplayWorld::allocate(ReplayGang& gang, const ProgramStep& step) {
  RankState& rank = *gang.ranks.front();
  gang.allocations[step.slot] = step.row;
  const ProgramAllocation& allocation = gang.program.tables->allocation(step.row);
  const AllocationOwner owner(gang.marks[step.slot]);
  (allocation.on_host ? rank.host_ledger() : rank.ledger())
      .allocate(allocation.category, allocation.bytes);
}

void ReplayWorld::release(ReplayGang& gang, std::uint32_t slot) {
  RankState& rank = *gang.ranks.front();
  const ProgramAllocation& allocation = gang.program.tables->allocation(gang.allocations[slot]);
  const AllocationOwner owner(gang.marks[slot]);
  (allocation.on_host ? rank.host_ledger() : rank.ledger())
      .release(allocation.category, allocation.bytes);
}

void ReplayWorld::require_ended() const {
  for (const ReplayGang& gang : gangs_) {
    if (!gang.ended()) throw ReplayEnded{"some ranks wait for ever"};
  }
  for (const ReplayGroup& group : groups_) {
    if (group.num_joined == group.num_running) continue;
    throw ReplayEnded{"not all members of group " + group.name + " have formed it"};
  }
}

}  // namespace shardsim
