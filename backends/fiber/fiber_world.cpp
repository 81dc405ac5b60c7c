#include "backends/fiber/fiber_world.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/hardware/kernels/kernel_seconds.hpp"
#include "sim/hardware/software.hpp"

namespace shardsim {

namespace {

// Arithmetic puts temporaries on the stack (Eigen up to 128 KiB); without data, calls are shallow.
constexpr std::size_t kDataStackBytes = std::size_t{512} * 1024;
constexpr std::size_t kMetaStackBytes = std::size_t{64} * 1024;

// Ticks between two looks at the time: an operation with data may take long.
constexpr std::uint64_t kDataProgressInterval = 16;
constexpr std::uint64_t kMetaProgressInterval = 1U << 12U;

LaunchOrder launch_order_of(const FiberOptions& options, const NetworkModel& network) {
  if (network.depends_on_order()) return LaunchOrder::earliest_start;
  const bool draws = options.draw_launches && options.interleaving_seed != 0;
  return draws ? LaunchOrder::drawn : LaunchOrder::newest_first;
}

bool host_waits_for_transfers(const Device& device) {
  return device.software != nullptr && device.software->host_waits_for_transfers;
}

// Prices of what ranks compute. Ranks of one speed, mostly all, share a cache.
class RankPrices {
 public:
  // `cluster` outlives it and does not change.
  explicit RankPrices(const Cluster& cluster) : cluster_(cluster) {}

  [[nodiscard]] PriceCache& of(int rank) {
    const double slowdown = cluster_.faults == nullptr ? 1.0 : cluster_.faults->slowdown_of(rank);
    return by_slowdown_.try_emplace(slowdown, cluster_.device, slowdown).first->second;
  }

 private:
  const Cluster& cluster_;
  std::map<double, PriceCache> by_slowdown_;
};

// A rank's compute stream, priced by the cluster's device.
class FiberRuntime final : public Runtime {
 public:
  FiberRuntime(FiberWorld& world, PriceCache& prices, RankState& rank, double& flops)
      : world_(world),
        options_(world.options()),
        engine_(world.engine()),
        prices_(prices),
        rank_(rank),
        flops_(flops),
        observer_(world.observer_of(rank.index())) {}

  [[nodiscard]] bool has_data() const override { return options_.has_data; }
  [[nodiscard]] MemoryLedger* ledger() override { return &rank_.ledger(); }
  [[nodiscard]] MemoryLedger* host_ledger() override { return &rank_.host_ledger(); }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts) override {
    if (options_.fold != nullptr) {
      refuse_folded(std::string(name) + " is counted by ranks that stand for others");
    }
    world_.tally(name, first, amounts);
  }

 protected:
  void charge(const ComputeOp& op) override {
    engine_.tick();
    rank_.hash().add(op.flops);
    // Names are labels of the code, not of the work. The kind and dtype share a word with the
    // bytes.
    const auto unit = static_cast<unsigned>(op.kind) << 8U | static_cast<unsigned>(op.dtype);
    rank_.hash().add(std::rotl(static_cast<std::uint64_t>(op.bytes), 16) ^ unit);
    const Price price = prices_.price(op);
    rank_.issue(price.host);
    const Time begin = rank_.now();
    rank_.compute(op.name, price.device);
    if (observer_ != nullptr) observer_->computed(op, begin, rank_.now());
    if (options_.cluster.device.host_waits_for_kernels) rank_.synchronize();
    flops_ += static_cast<double>(op.flops);
  }
  void record_decision(const char* name, bool answer) override {
    rank_.synchronize();
    if (options_.record != nullptr) options_.record->add(rank_.index(), name, answer);
  }
  [[nodiscard]] bool planned_decision(const char* name, bool planned) override {
    rank_.synchronize();
    return options_.replay != nullptr ? options_.replay->next(rank_.index(), name) : planned;
  }
  void record_numbers(const char* name, const Numbers& numbers) override {
    rank_.synchronize();
    if (options_.record != nullptr) options_.record->add_numbers(rank_.index(), name, numbers);
  }
  [[nodiscard]] std::optional<Numbers> replayed_numbers(const char* name) override {
    rank_.synchronize();
    if (options_.replay == nullptr) return std::nullopt;
    return options_.replay->next_numbers(rank_.index(), name);
  }

 private:
  FiberWorld& world_;
  const FiberOptions& options_;
  Engine& engine_;
  PriceCache& prices_;
  RankState& rank_;
  double& flops_;
  RankObserver* observer_;  // Mostly null.
};

// Streams with handles left, contrary to the rules, when their world is gone. Kept to the end of
// the program, as the end of these handles is unknown. Worlds of other threads have their own.
std::vector<std::unique_ptr<FiberStream>>& stray_streams() {
  thread_local auto* const streams = new std::vector<std::unique_ptr<FiberStream>>();
  return *streams;
}

}  // namespace

FiberWorld::FiberWorld(FiberOptions options)
    : options_(std::move(options)),
      network_(make_network_model(options_.cluster)),
      call_price_(Time::from_seconds(options_.cluster.device.host_s_per_call.peek())),
      waits_for_kernels_(options_.cluster.device.host_waits_for_kernels),
      waits_for_transfers_(host_waits_for_transfers(options_.cluster.device)),
      slowdown_(options_.cluster.device.slowdown_beside_collectives),
      engine_(
          {.num_ranks = options_.cluster.num_ranks(),
           .representative =
               options_.fold == nullptr ? std::vector<int>() : options_.fold->representative,
           .stack_bytes = options_.has_data ? kDataStackBytes : kMetaStackBytes,
           .interleaving_seed = options_.interleaving_seed,
           .launch_order = launch_order_of(options_, *network_),
           .on_progress = options_.on_progress,
           .progress_interval = options_.has_data ? kDataProgressInterval : kMetaProgressInterval}),
      sent_by_rank_(static_cast<std::size_t>(engine_.num_ranks()), 0),
      comm_busy_(sent_by_rank_.size()),
      executed_flops_(sent_by_rank_.size(), 0.0),
      open_streams_(sent_by_rank_.size(), nullptr),
      mailbox_(*this) {
  if (options_.fold != nullptr && options_.has_data) {
    throw UsageError("E0799", "a world with data cannot leave ranks out",
                     "leave FiberOptions::fold out, or run without data");
  }
  engine_.set_stall_explainer(this);
  engine_.set_arbiter(&mailbox_);
  if (options_.watch) {
    if (options_.has_data) buffer_watch_.emplace(engine_);
    order_watch_.emplace(engine_.num_ranks());
  }
  for (const int rank : options_.traced_ranks) engine_.rank(rank).start_trace();
}

FiberWorld::~FiberWorld() {
  for (FiberStream* stream : open_streams_) {
    for (; stream != nullptr; stream = stream->next_open) stream->outlive_world();
  }
  for (std::unique_ptr<FiberStream>& stream : orphans_) {
    if (!stream->has_handles()) continue;
    stream->outlive_world();
    stray_streams().push_back(std::move(stream));
  }
}

void FiberWorld::wait(RankState& rank, FiberOperation& operation) {
  const bool is_transfer = operation.is_transfer();
  engine_.wait(rank, operation, is_transfer ? 0.0 : slowdown_);
  if (waits_for_kernels_ || (is_transfer && waits_for_transfers_)) rank.synchronize();
}

// A rank that does not run computes as much as its representative.
void FiberWorld::tell_stood_for() {
  for (int rank = 0; rank < engine_.num_ranks(); ++rank) {
    executed_flops_[static_cast<std::size_t>(rank)] =
        executed_flops_[static_cast<std::size_t>(engine_.rank(rank).index())];
  }
}

void FiberWorld::run(const RankBody& body) {
  std::vector<int> everyone(static_cast<std::size_t>(engine_.num_ranks()));
  std::iota(everyone.begin(), everyone.end(), 0);
  FiberGroup& world = add_group(0, "world", std::move(everyone));
  RankPrices prices(options_.cluster);
  engine_.run([&](RankState& rank) {
    FiberRuntime runtime(*this, prices.of(rank.index()), rank,
                         executed_flops_[static_cast<std::size_t>(rank.index())]);
    FiberCommunicator communicator(world, rank.index());
    body(runtime, communicator);
    require_closed(rank);
  });
  require_waited();
  require_delivered();
  tell_stood_for();
}

FiberGroup& FiberWorld::add_group(std::uint64_t id, std::string name, std::vector<int> members,
                                  std::vector<std::vector<int>> twins) {
  return groups_.emplace_back(*this, id, std::move(name), std::move(members), std::move(twins));
}

void FiberWorld::tally(const char* name, std::int64_t first,
                       std::span<const std::int64_t> amounts) {
  auto found = tallies_.find(std::string_view(name));
  if (found == tallies_.end()) found = tallies_.try_emplace(name).first;
  std::vector<std::int64_t>& sums = found->second;
  const std::size_t end = static_cast<std::size_t>(first) + amounts.size();
  if (sums.size() < end) sums.resize(end, 0);
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    sums[static_cast<std::size_t>(first) + i] += amounts[i];
  }
}

void FiberWorld::retire(std::unique_ptr<FiberStream> stream) {
  FiberGroup& group = stream->group();
  TrafficCounters& of_name = traffic_[group.name()];
  const auto add_sent = [&](int rank, std::int64_t bytes) {
    sent_by_rank_[static_cast<std::size_t>(rank)] += bytes;
  };
  stream->for_each_member([&](int member, const TrafficCounters& counters) {
    of_name += counters;
    group.add_counters(member, counters);
    add_sent(group.world_rank(member), counters.payload_sent);
    for (const std::vector<int>& twin : group.twins()) {
      of_name += counters;
      add_sent(twin[static_cast<std::size_t>(member)], counters.payload_sent);
    }
  });
  if (!stream->has_handles()) return;
  stream->close();
  orphans_.push_back(std::move(stream));
}

// Streams run side by side, so their sum may leave the range that each of them keeps.
void FiberWorld::add_busy(int rank, Time duration) {
  std::int64_t& busy = comm_busy_[static_cast<std::size_t>(rank)];
  if (__builtin_add_overflow(busy, duration.picoseconds(), &busy)) {
    busy = std::numeric_limits<std::int64_t>::max();
  }
}

int FiberWorld::fullest_rank() const {
  int fullest = 0;
  for (int rank = 1; rank < engine_.num_ranks(); ++rank) {
    if (engine_.rank(rank).ledger().peak() > engine_.rank(fullest).ledger().peak()) fullest = rank;
  }
  return fullest;
}

void FiberWorld::require_device_memory() const {
  const int rank = fullest_rank();
  const std::int64_t peak = engine_.rank(rank).ledger().peak();
  const std::int64_t capacity = options_.cluster.device.memory_bytes;
  if (peak <= capacity) return;
  throw LimitError("E0309",
                   "out of device memory: rank " + std::to_string(rank) + " needs " +
                       std::to_string(peak) + " bytes at its peak, the device has " +
                       std::to_string(capacity),
                   "shard more, use smaller microbatches, or recompute activations");
}

TrafficCounters FiberWorld::total_traffic() const {
  TrafficCounters total;
  for (const auto& [_, counters] : traffic_) total += counters;
  return total;
}

void FiberWorld::for_each_link(const std::function<void(const LinkTraffic&)>& visit) const {
  for (const FiberGroup& group : groups_) {
    const auto visit_link = [&](const std::vector<int>& ranks, std::pair<int, int> ends,
                                const LinkCounts& counts) {
      visit({.group = &group,
             .from_rank = ranks[static_cast<std::size_t>(ends.first)],
             .to_rank = ranks[static_cast<std::size_t>(ends.second)],
             .counts = counts});
    };
    for (const auto& [ends, counts] : group.links()) {
      visit_link(group.layout().members, ends, counts);
      for (const std::vector<int>& twin : group.twins()) visit_link(twin, ends, counts);
    }
  }
}

// --- What is watched ---------------------------------------------------------------------------

bool FiberWorld::sends_ahead(int rank, std::int64_t number) const {
  if (options_.drawn_sends == 0) return options_.buffered_sends;
  // By rank and number, not by time: the order in which ranks run must not change it.
  RollingHash hash;
  hash.add(options_.drawn_sends);
  hash.add(std::int64_t{rank});
  hash.add(number);
  return (hash.value() & 1U) != 0;
}

void FiberWorld::watch_order(const RankState& rank, const FiberOperation& operation, CallSite site,
                             const Work* after) {
  const auto* prior =
      after == nullptr ? nullptr : static_cast<const FiberOperation*>(after->operation());
  order_watch_->posted(rank.index(), operation, site, prior, rank.now());
}

std::vector<Diagnosis> FiberWorld::warnings() const {
  return order_watch_ ? order_watch_->warnings() : std::vector<Diagnosis>();
}

std::unique_ptr<TaggedMessages> FiberWorld::tagged_messages(int rank) {
  return std::make_unique<FiberTaggedMessages>(groups_.front(), rank);
}

void FiberWorld::note_open(FiberStream& stream) {
  FiberStream*& first = open_streams_[static_cast<std::size_t>(stream.rank().index())];
  stream.next_open = std::exchange(first, &stream);
}

void FiberWorld::note_closed(FiberStream& stream) {
  FiberStream** place = &open_streams_[static_cast<std::size_t>(stream.rank().index())];
  while (*place != nullptr && *place != &stream) place = &(*place)->next_open;
  if (*place != nullptr) *place = stream.next_open;
}

// At the end of a rank's body only the communicator of all ranks is left.
void FiberWorld::require_closed(const RankState& rank) {
  const FiberStream* const last = open_streams_[static_cast<std::size_t>(rank.index())];
  if (last->next_open == nullptr) return;
  Diagnosis diagnosis =
      last->group().report("GROUP_LEAK", rank, "made it and keeps it", last->made_at());
  diagnosis.summary = "rank " + std::to_string(rank.index()) +
                      " ends without destroying its communicator of group " + last->group().name();
  diagnosis.hint = "destroy the object that split() returned before the rank ends";
  throw CommunicationError(std::move(diagnosis));
}

// Works that were taken out of their ranks, and whose communicators have gone.
void FiberWorld::require_waited() const {
  const auto kept = std::find_if(orphans_.begin(), orphans_.end(),
                                 [](const auto& stream) { return stream->has_handles(); });
  if (kept == orphans_.end()) return;
  const FiberStream& stream = **kept;
  Diagnosis diagnosis = stream.group().report(
      "REQ_LEAK", stream.rank(), "keeps a work of " + stream.group().name(), stream.made_at());
  diagnosis.summary = "rank " + std::to_string(stream.rank().index()) +
                      " has ended, but the handle of a communication of group " +
                      stream.group().name() + " was never waited for";
  diagnosis.hint = "wait() for every Work in the rank that has posted it";
  throw CommunicationError(std::move(diagnosis));
}

// Buffered messages that no rank has received; others hold up their senders.
void FiberWorld::require_delivered() const {
  const FiberOperation* left = mailbox_.left_over();
  int from = left == nullptr ? 0 : mailbox_.left_over()->call().member;
  for (const FiberGroup& group : groups_) {
    if (left != nullptr) break;
    for (const FiberOperation* operation : group.open_operations()) {
      const auto* transfer = dynamic_cast<const TransferOperation*>(operation);
      if (transfer == nullptr || transfer->posted(false)) continue;
      left = transfer;
      from = group.world_rank(transfer->source());
    }
  }
  if (left == nullptr) return;
  const CallRecord& call = left->record();
  const int to = left->group()->world_rank(call.root);
  Diagnosis diagnosis = left->group()->report("P2P_UNMATCHED");
  diagnosis.summary = "rank " + std::to_string(to) + " has never received a message of " +
                      std::to_string(call.count * size_of(call.dtype)) + " bytes from rank " +
                      std::to_string(from);
  diagnosis.sequence = left->sequence();
  diagnosis.sides = {{.ranks = {to}, .action = "missing: has finished"},
                     {.ranks = {from}, .action = "called " + call.describe(), .site = call.site}};
  diagnosis.hint = "every send needs a recv on its peer, in the same order";
  throw CommunicationError(std::move(diagnosis));
}

Diagnosis FiberWorld::explain(const Engine& engine) {
  return explain_stall(engine, groups_, mailbox_);
}

void FiberWorld::note_waiting(const Engine& engine) { waiting_ = waiting_sides(engine); }

}  // namespace shardsim
