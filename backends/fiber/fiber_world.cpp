#include "backends/fiber/fiber_world.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/hardware/kernels/kernel_seconds.hpp"
#include "sim/hardware/software.hpp"

#include "backends/trace_hash.hpp"

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
  void open_streams(std::uint32_t streams, std::uint32_t events) override {
    rank_.open_streams(streams, events, world_.rules());
  }
  void use_stream(std::uint32_t stream) override {
    add_stream_action(rank_.hash(), StreamAction::use, stream);
    rank_.use_stream(stream);
  }
  void record_event(std::uint32_t event) override {
    add_stream_action(rank_.hash(), StreamAction::record, event);
    rank_.record_event(event);
  }
  void wait_event(std::uint32_t event) override {
    add_stream_action(rank_.hash(), StreamAction::wait, event);
    rank_.wait_event(event);
  }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts) override {
    if (options_.fold != nullptr) {
      refuse_folded(std::string(name) + " is counted by ranks that stand for others");
    }
    world_.tally(name, first, amounts);
  }

 protected:
  void charge(const ComputeOp& op) override {
    engine_.tick();
    add_operation(rank_.hash(), op);
    const Price price = prices_.price(op);
    const Time begin = rank_.compute(op.name, price.device, price.host, world_.rules());
    if (observer_ != nullptr) observer_->computed(op, begin, rank_.now());
    flops_ += static_cast<double>(op.flops);
  }
  void record_decision(const char* name, bool answer) override {
    rank_.clock().synchronize();
    if (options_.record != nullptr) options_.record->add(rank_.index(), name, answer);
  }
  [[nodiscard]] bool planned_decision(const char* name, bool planned) override {
    rank_.clock().synchronize();
    return options_.replay != nullptr ? options_.replay->next(rank_.index(), name) : planned;
  }
  void record_numbers(const char* name, const Numbers& numbers) override {
    rank_.clock().synchronize();
    if (options_.record != nullptr) options_.record->add_numbers(rank_.index(), name, numbers);
  }
  [[nodiscard]] std::optional<Numbers> replayed_numbers(const char* name) override {
    rank_.clock().synchronize();
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

// Empty: all ranks run.
std::vector<int> representatives_of(const Fold* fold) {
  std::vector<int> representatives;
  if (fold == nullptr) return representatives;
  for (int rank = 0; rank < fold->num_ranks(); ++rank) {
    representatives.push_back(fold->representative_of(rank));
  }
  return representatives;
}

}  // namespace

FiberWorld::FiberWorld(FiberOptions options)
    : World(options.cluster, options.fold),
      options_(std::move(options)),
      network_(make_network_model(options_.cluster)),
      rules_(options_.cluster.device.stream_rules()),
      engine_(
          {.num_ranks = options_.cluster.num_ranks(),
           .representative = representatives_of(options_.fold),
           .stack_bytes = options_.has_data ? kDataStackBytes : kMetaStackBytes,
           .interleaving_seed = options_.interleaving_seed,
           .launch_order = launch_order_of(options_, *network_),
           .ranks_advance = !options_.has_data && options_.chooser == nullptr,
           .on_progress = options_.on_progress,
           .progress_interval = options_.has_data ? kDataProgressInterval : kMetaProgressInterval}),
      open_streams_(static_cast<std::size_t>(num_ranks()), nullptr),
      mailbox_(*this) {
  if (options_.fold != nullptr && options_.has_data) {
    throw UsageError("E0799", "a world with data cannot leave ranks out",
                     "leave FiberOptions::fold out, or run without data");
  }
  engine_.set_stall_explainer(this);
  engine_.set_arbiter(&mailbox_);
  if (options_.watch) {
    if (options_.has_data) buffer_watch_.emplace(engine_, options_.variation);
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

void FiberWorld::run(const RankBody& body) {
  std::vector<int> everyone(static_cast<std::size_t>(engine_.num_ranks()));
  std::iota(everyone.begin(), everyone.end(), 0);
  FiberGroup& world = add_group({.name = "world"}, std::move(everyone));
  RankPrices prices(options_.cluster);
  engine_.run([&](RankState& rank) {
    FiberRuntime runtime(*this, prices.of(rank.index()), rank,
                         executed_flops_[place_of(rank.index())]);
    FiberCommunicator communicator(world, rank.index());
    body(runtime, communicator);
    require_closed(rank);
  });
  require_waited();
  require_delivered();
}

FiberGroup& FiberWorld::add_group(GroupKey key, std::vector<int> members, Twins twins) {
  return groups_.emplace_back(*this, std::move(key), std::move(members), std::move(twins));
}

void FiberWorld::retire(std::unique_ptr<FiberStream> stream) {
  FiberGroup& group = stream->group();
  stream->for_each_member([&](int member, const TrafficCounters& counters) {
    group.add_counters(member, counters);
    add_traffic(group.name(), counters, 1 + static_cast<std::int64_t>(group.twins().size()));
  });
  if (!stream->has_handles()) return;
  stream->close();
  orphans_.push_back(std::move(stream));
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

void FiberWorld::for_equal_links(const std::function<void(const EqualLinks&)>& visit) const {
  for (const FiberGroup& group : groups_) {
    for (const auto& [ends, counts] : group.links()) {
      visit({.group = group.name(),
             .members = group.layout().members,
             .twins = group.twins(),
             .from = ends.first,
             .to = ends.second,
             .counts = counts});
    }
  }
}

std::vector<std::int64_t> FiberWorld::sent_by_rank() const {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(num_ranks()));
  for (const FiberGroup& group : groups_) {
    for (int member = 0; member < group.size(); ++member) {
      add_sent(group.counters(member).payload_sent, group.layout().members, group.twins(), member,
               sent);
    }
  }
  return sent;
}

// --- What is watched ---------------------------------------------------------------------------

const CallRepair* FiberWorld::repair_of(CallRepair::Kind kind, std::uint64_t group,
                                        std::int64_t sequence, int rank) const {
  for (const CallRepair& repair : options_.repairs) {
    if (repair.kind == kind && repair.group == group && repair.sequence == sequence &&
        (rank < 0 || repair.rank == rank)) {
      return &repair;
    }
  }
  return nullptr;
}

const CallRepair* FiberWorld::repair_of_half(std::uint64_t group, std::int64_t number,
                                             int rank) const {
  const CallRepair* const left_out =
      repair_of(CallRepair::Kind::leave_out_half, group, number, rank);
  if (left_out != nullptr) return left_out;
  return repair_of(CallRepair::Kind::redirect, group, number, rank);
}

bool FiberWorld::leaves_out(std::uint64_t group, std::int64_t sequence, int rank) {
  if (left_out_) return false;  // The next call takes its number.
  left_out_ = repair_of(CallRepair::Kind::leave_out, group, sequence, rank) != nullptr;
  return left_out_;
}

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
  int from = left == nullptr ? 0 : mailbox_.left_over()->member();
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
  Diagnosis diagnosis = explain_stall(engine, groups_, mailbox_);
  // For who chooses schedules, and can make the run again.
  if (options_.chooser != nullptr && options_.repairs.empty()) {
    suspicions_ = suspicions_of(engine, groups_, mailbox_, diagnosis);
  }
  return diagnosis;
}

void FiberWorld::note_waiting(const Engine& engine) { waiting_ = waiting_sides(engine); }

}  // namespace shardsim
