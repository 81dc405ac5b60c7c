#include "backends/fiber/fiber_group.hpp"

#include <algorithm>

#include "backends/fiber/fiber_world.hpp"
#include "backends/trace_hash.hpp"

namespace shardsim {

namespace {

template <class Operation>
Operation& take(std::vector<Operation*>& free, std::deque<Operation>& all) {
  if (free.empty()) return all.emplace_back();
  Operation& operation = *free.back();
  free.pop_back();
  return operation;
}

}  // namespace

FiberGroup::FiberGroup(FiberWorld& world, GroupKey key, std::vector<int> members, Twins twins)
    : world_(world),
      key_(std::move(key)),
      layout_(world.options().cluster, std::move(members)),
      twins_(std::move(twins)),
      next_sequence_(layout_.members.size(), 0) {
  const Engine& engine = world.engine();
  std::map<int, int> callers;  // By world rank.
  for (int member = 0; member < size(); ++member) {
    if (engine.runs(world_rank(member))) ++num_callers_;
  }
  if (!is_folded()) return;
  for (int member = 0; member < size(); ++member) {
    if (engine.runs(world_rank(member))) callers.emplace(world_rank(member), member);
  }
  stood_for_.resize(layout_.members.size());
  for (int member = 0; member < size(); ++member) {
    const int by = callers.at(engine.rank(world_rank(member)).index());
    if (by != member) stood_for_[static_cast<std::size_t>(by)].push_back(member);
  }
}

std::span<const int> FiberGroup::stood_for(int member) const {
  if (!is_folded()) return {};
  return stood_for_[static_cast<std::size_t>(member)];
}

int FiberGroup::member_of(int world_rank) const {
  const std::vector<int>& members = layout_.members;
  // The group of all ranks, mostly.
  const auto same = static_cast<std::size_t>(world_rank);
  if (same < members.size() && members[same] == world_rank) return world_rank;
  return static_cast<int>(std::ranges::find(members, world_rank) - members.begin());
}

std::vector<int> FiberGroup::world_ranks(const std::vector<int>& members) const {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(world_rank(member));
  return ascending(std::move(ranks));
}

std::vector<int> FiberGroup::all_world_ranks() const { return ascending(layout_.members); }

Diagnosis FiberGroup::report(const char* code) const {
  return {.code = code, .group = name(), .members = all_world_ranks()};
}

Diagnosis FiberGroup::report(const char* code, const RankState& rank, const std::string& action,
                             CallSite site) const {
  Diagnosis diagnosis = report(code);
  diagnosis.time = rank.now();
  diagnosis.sides = {{.ranks = {rank.index()}, .action = action, .site = site}};
  return diagnosis;
}

CollectiveOperation& FiberGroup::collective(CollectiveKind kind, std::int64_t sequence,
                                            const CallRecord& record) {
  const auto index = static_cast<std::size_t>(sequence - first_forming_);
  if (index < forming_.size()) return *forming_[index];
  CollectiveOperation& operation = take(free_collectives_, collectives_);
  operation.open(*this, row_of(kind), sequence, record);
  forming_.push(&operation);
  return operation;
}

void FiberGroup::note_complete(const CollectiveOperation& operation) {
  // Members come in order, so operations are complete in order, too: unless an earlier one never
  // will be, because its calls differ. The run is lost then, but numbers must stay right.
  if (forming_.front() != &operation) return;
  last_matched_ = operation.record();
  // Behind it may be some for which a member was excused: they were complete before.
  do {
    first_forming_ = forming_.front()->sequence() + 1;
    forming_.pop();
  } while (!forming_.empty() && forming_.front()->complete());
}

std::vector<int> FiberGroup::members_past(std::int64_t sequence) const {
  std::vector<int> members;
  for (std::size_t member = 0; member < next_sequence_.size(); ++member) {
    if (next_sequence_[member] > sequence) members.push_back(static_cast<int>(member));
  }
  return members;
}

TransferOperation& FiberGroup::transfer(int source, int destination, bool sends) {
  Channel& channel = channels_[{source, destination}];
  if (!channel.waiting.empty() && channel.sender_waits != sends) return *channel.waiting.pop();
  TransferOperation& operation = take(free_transfers_, transfers_);
  operation.open(*this, channel.next_sequence++, source, destination);
  channel.waiting.push(&operation);
  channel.sender_waits = sends;
  return operation;
}

JoinOperation& FiberGroup::join(int member, const CallRecord& record) {
  JoinOperation& operation = take(free_joins_, joins_);
  operation.open(*this, next_join_++, member, record);
  return operation;
}

std::pair<FiberGroup*, int> FiberGroup::child(const CollectiveOperation& split,
                                              const std::string& name, int member) {
  Seating& seating = seatings_[split.sequence()];
  if (seating.seats.empty()) {
    is_folded() ? seat_folded(split, name, seating) : seat(split, name, seating);
  }
  const std::pair<FiberGroup*, int> seat = seating.seats[static_cast<std::size_t>(member)];
  if (++seating.num_taken == num_callers_) seatings_.erase(split.sequence());
  return seat;
}

void FiberGroup::seat(const CollectiveOperation& split, const std::string& name, Seating& seating) {
  seating.seats.resize(static_cast<std::size_t>(size()));
  for (const auto& [color, chosen] : members_by_color(split.choices())) {
    if (color == kNoColor) continue;
    std::vector<int> members;
    members.reserve(chosen.size());
    for (const int member : chosen) members.push_back(world_rank(member));
    FiberGroup& group = add_child(split, color, name, std::move(members), twins_.part(chosen));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      seating.seats[static_cast<std::size_t>(chosen[i])] = {&group, static_cast<int>(i)};
    }
  }
}

// The fold already holds the choices of ranks that do not run.
void FiberGroup::seat_folded(const CollectiveOperation& split, const std::string& name,
                             Seating& seating) {
  const Fold* const fold = world_.options().fold;
  if (id() != 0 || num_folded_splits_ == fold->splits.size()) {
    refuse_folded("group " + this->name() + " is split to " + name +
                  ", and not all of its ranks run");
  }
  seating.seats.resize(layout_.members.size());
  for (const FoldedSplit::Group& made : fold->splits[num_folded_splits_++].groups) {
    FiberGroup& group = add_child(split, made.color, name, made.members, made.twins);
    for (int member = 0; member < group.size(); ++member) {
      const auto rank = static_cast<std::size_t>(group.world_rank(member));
      seating.seats[rank] = {&group, member};
    }
  }
}

FiberGroup& FiberGroup::add_child(const CollectiveOperation& split, int color,
                                  const std::string& name, std::vector<int> members, Twins twins) {
  return world_.add_group({.id = id_of_child(id(), split.sequence(), color),
                           .path = path_of_child(path(), split.sequence()),
                           .name = name},
                          std::move(members), std::move(twins));
}

const DoubleTree* FiberGroup::tree() {
  if (!tree_) tree_.emplace(layout_);
  return &*tree_;
}

void FiberGroup::add_counters(int member, const TrafficCounters& counters) {
  if (counters.calls == 0 && counters.scalar_calls == 0) return;
  counters_.resize(layout_.members.size());
  counters_[static_cast<std::size_t>(member)] += counters;
}

const TrafficCounters& FiberGroup::counters(int member) const {
  static const TrafficCounters kNothing;
  return counters_.empty() ? kNothing : counters_[static_cast<std::size_t>(member)];
}

GroupLinks& FiberGroup::off_ring() {
  if (off_ring_ == nullptr) off_ring_ = std::make_unique<GroupLinks>();
  return *off_ring_;
}

void FiberGroup::add_sent(const char* operation, std::int64_t bytes) {
  for (auto& [name, sum] : sent_) {
    if (name != operation) continue;
    sum += bytes;
    return;
  }
  sent_.emplace_back(operation, bytes);
}

SentByOperation FiberGroup::sent_by_operation() const {
  SentByOperation sent;
  for (const auto& [name, sum] : sent_) sent[name] += sum;
  return sent;
}

LinkTable FiberGroup::links() const {
  return links_of(counters_, off_ring_.get(), tree_ ? &*tree_ : nullptr);
}

std::vector<const FiberOperation*> FiberGroup::open_operations() const {
  std::vector<const FiberOperation*> open;
  const auto collect = [&open](const auto& operations) {
    for (const FiberOperation& operation : operations) {
      if (operation.in_use()) open.push_back(&operation);
    }
  };
  collect(collectives_);
  collect(transfers_);
  collect(joins_);
  return open;
}

std::string FiberGroup::last_matched() const {
  if (first_forming_ == 0) return {};
  return "#" + std::to_string(first_forming_ - 1) + " " + last_matched_.describe();
}

}  // namespace shardsim
