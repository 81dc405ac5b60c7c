#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/engine.hpp"

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/decision_log.hpp"
#include "backends/fiber/fiber_communicator.hpp"
#include "backends/fiber/fiber_operation.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fold.hpp"
#include "backends/fiber/mailbox.hpp"
#include "backends/reduce.hpp"
#include "backends/runtime.hpp"

// The in-memory backend: all ranks in one process, in virtual time, with or without data.
namespace shardsim {

struct FiberOptions {
  Cluster cluster;
  bool has_data = true;
  ReductionOrder reduction_order = ReductionOrder::rank;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  /// Sends complete without their receiver (as small messages do on many networks).
  bool buffered_sends = false;
  /// Not 0: each send does so or does not, as drawn from this seed.
  std::uint64_t drawn_sends = 0;
  /// Watches what is legal to post and wrong to do: buffers touched while they are in use, and the
  /// order of calls of different groups. For checks; it costs time.
  bool watch = false;
  /// Chooses the messages of open receives; null: the first in virtual time. Outlives the world.
  MessageChooser* chooser = nullptr;
  std::vector<int> traced_ranks;
  /// By rank that runs; each outlives the world.
  std::map<int, RankObserver*> observers;
  /// A run with data writes decisions to `record`; a run without data reads them from `replay`.
  /// Null: none kept; as plans assume. Both outlive the world.
  DecisionLog* record = nullptr;
  DecisionReplay* replay = nullptr;
  /// Ranks that represent others; null: all run. Outlives the world. Only without data.
  const Fold* fold = nullptr;
  std::uint64_t interleaving_seed = 0;
  /// Draws the order in which operations end from that seed, too, if prices do not depend on it.
  bool draw_launches = false;
  /// Called now and then while ranks run.
  std::function<void()> on_progress;
};

/// One directed link that payload of a group has travelled on, whichever way: along the ring, by a
/// tree, or directly (gather and scatter, all_to_all, point-to-point). Scalars and padding are in
/// the counts per member only.
struct LinkTraffic {
  const FiberGroup* group = nullptr;  ///< Or its representative. Lives as long as the world.
  int from_rank = 0;                  ///< World ranks.
  int to_rank = 0;
  LinkCounts counts;
};

class FiberWorld final : private StallExplainer {
 public:
  explicit FiberWorld(FiberOptions options);
  ~FiberWorld() override;

  using RankBody = std::function<void(Runtime&, Communicator&)>;
  /// Runs `body` on every rank with the communicator of all ranks. Throws as Engine::run does. To
  /// be called once.
  void run(const RankBody& body);

  [[nodiscard]] const FiberOptions& options() const { return options_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  [[nodiscard]] NetworkModel& network() { return *network_; }
  /// Null unless the rank is observed.
  [[nodiscard]] RankObserver* observer_of(int rank) const {
    const auto found = options_.observers.find(rank);
    return found == options_.observers.end() ? nullptr : found->second;
  }
  /// Host time to post a communication.
  [[nodiscard]] Time call_price() const { return call_price_; }
  /// A collective is posted by `rank`.
  void begin(RankState& rank) const {
    if (slowdown_ > 0.0) rank.begin_beside();
  }
  /// Engine::wait, with what the device and its software make of computing beside `operation` and
  /// of the host's waiting for it.
  void wait(RankState& rank, FiberOperation& operation);

  /// Traffic by communicator name, summed over the members of all groups of that name.
  [[nodiscard]] const std::map<std::string, TrafficCounters>& traffic() const { return traffic_; }
  [[nodiscard]] TrafficCounters total_traffic() const;
  /// Payload bytes sent, per world rank.
  [[nodiscard]] const std::vector<std::int64_t>& sent_by_rank() const { return sent_by_rank_; }
  /// Every group with a running rank, in the order they were made: FiberGroup::counters has what
  /// each member moved over it.
  [[nodiscard]] const std::deque<FiberGroup>& groups() const { return groups_; }
  /// Visits the links that were used, group by group in the order they were made, by sender and
  /// receiver.
  void for_each_link(const std::function<void(const LinkTraffic&)>& visit) const;
  /// Sum of the durations of a rank's communications that have been waited for; also during a run.
  [[nodiscard]] Time comm_busy(int rank) const {
    return Time::from_picoseconds(comm_busy_[static_cast<std::size_t>(engine_.rank(rank).index())]);
  }

  /// The rank with the highest peak of device memory, the lowest of equals.
  [[nodiscard]] int fullest_rank() const;
  /// Throws LimitError (E0309) if a rank's peak was more than the device has. A run does not stop
  /// there, so that it can say how much is needed; who wants it to count as failed asks here.
  void require_device_memory() const;

  /// Operations of matrix products that each rank has computed; exact up to 2^53, then rounded.
  [[nodiscard]] const std::vector<double>& executed_flops() const { return executed_flops_; }

  /// The ranks' counts under a name (Runtime::tally); empty if there are none.
  [[nodiscard]] std::span<const std::int64_t> tallied(std::string_view name) const {
    const auto found = tallies_.find(name);
    return found == tallies_.end() ? std::span<const std::int64_t>() : found->second;
  }

  /// Calls that are legal here and may hang elsewhere, if the world is watched.
  [[nodiscard]] std::vector<Diagnosis> warnings() const;
  /// Waits of the ranks when one failed; empty if none has.
  [[nodiscard]] const std::vector<DiagnosisSide>& waiting() const { return waiting_; }
  /// A rank's end of tagged messages among all ranks, for use within its body.
  [[nodiscard]] std::unique_ptr<TaggedMessages> tagged_messages(int rank);

  // For runtimes, groups and communicators.
  [[nodiscard]] Mailbox& mailbox() { return mailbox_; }
  [[nodiscard]] BufferWatch* buffer_watch() { return buffer_watch_ ? &*buffer_watch_ : nullptr; }
  [[nodiscard]] bool is_watched() const { return options_.watch; }
  void watch_post(const BufferWatch::Post& post, const Tensor& output, const Tensor& input,
                  std::int64_t own_chunk = BufferWatch::kNowhere) {
    if (buffer_watch_) buffer_watch_->posted(post, output, input, own_chunk);
  }
  void watch_order(const RankState& rank, const FiberOperation& operation, CallSite site,
                   const Work* after);
  void watch_wait(const RankState& rank, const FiberOperation& operation) {
    if (buffer_watch_) buffer_watch_->waited(rank.index(), operation);
    if (order_watch_) order_watch_->waited(rank.index(), operation);
  }
  /// Whether a rank's send goes without its receiver.
  [[nodiscard]] bool sends_ahead(int rank, std::int64_t number) const;
  void note_open(FiberStream& stream);
  void note_closed(FiberStream& stream);
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts);
  FiberGroup& add_group(std::uint64_t id, std::string name, std::vector<int> members,
                        std::vector<std::vector<int>> twins = {});
  /// An equal text that lives as long as the world.
  const char* keep_name(const std::string& name) { return names_.insert(name).first->c_str(); }
  void add_busy(int rank, Time duration);
  /// Adds up a stream's counters when its communicator goes.
  void retire(std::unique_ptr<FiberStream> stream);

 private:
  [[nodiscard]] Diagnosis explain(const Engine& engine) override;
  void note_waiting(const Engine& engine) override;
  void require_closed(const RankState& rank);
  void require_waited() const;
  void require_delivered() const;
  void tell_stood_for();

  FiberOptions options_;
  std::unique_ptr<NetworkModel> network_;
  Time call_price_;
  bool waits_for_kernels_;
  bool waits_for_transfers_;  // The host, before it continues.
  double slowdown_;           // See RankState::end_beside.
  Engine engine_;
  std::optional<BufferWatch> buffer_watch_;
  std::optional<OrderWatch> order_watch_;
  std::vector<DiagnosisSide> waiting_;
  std::set<std::string> names_;
  std::deque<FiberGroup> groups_;
  std::vector<std::unique_ptr<FiberStream>> orphans_;  // Streams of which a Work is left.
  std::map<std::string, TrafficCounters> traffic_;
  std::vector<std::int64_t> sent_by_rank_;
  std::vector<std::int64_t> comm_busy_;  // Picoseconds, saturating.
  std::vector<double> executed_flops_;
  std::vector<FiberStream*> open_streams_;  // By rank, linked; of communicators.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> tallies_;
  Mailbox mailbox_;
};

}  // namespace shardsim
