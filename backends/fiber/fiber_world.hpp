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
#include "backends/fiber/call_repair.hpp"
#include "backends/fiber/fiber_communicator.hpp"
#include "backends/fiber/fiber_operation.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/mailbox.hpp"
#include "backends/fold.hpp"
#include "backends/reduce.hpp"
#include "backends/runtime.hpp"
#include "backends/world.hpp"

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
  /// Another content of watched buffers in flight.
  BufferWatch::Variation variation = {};
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
  /// Calls that the run mends.
  std::vector<CallRepair> repairs;
  /// Called now and then while ranks run.
  std::function<void()> on_progress;
};

class FiberWorld final : public World, private StallExplainer {
 public:
  explicit FiberWorld(FiberOptions options);
  ~FiberWorld() override;

  using RankBody = std::function<void(Runtime&, Communicator&)>;
  /// Runs `body` on every rank with the communicator of all ranks. Throws as Engine::run does. To
  /// be called once.
  void run(const RankBody& body);

  [[nodiscard]] RankState& rank(int rank) override { return engine_.rank(rank); }
  [[nodiscard]] const RankState& rank(int rank) const override { return engine_.rank(rank); }
  [[nodiscard]] std::uint64_t trace_hash() const override { return engine_.trace_hash(); }
  void for_equal_links(const std::function<void(const EqualLinks&)>& visit) const override;
  [[nodiscard]] std::vector<std::int64_t> sent_by_rank() const override;

  [[nodiscard]] const FiberOptions& options() const { return options_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  [[nodiscard]] NetworkModel& network() { return *network_; }
  /// Null unless the rank is observed.
  [[nodiscard]] RankObserver* observer_of(int rank) const {
    const auto found = options_.observers.find(rank);
    return found == options_.observers.end() ? nullptr : found->second;
  }
  /// How the hosts of all ranks work with their devices.
  [[nodiscard]] const StreamRules& rules() const { return rules_; }
  /// Every group with a running rank, in the order they were made: FiberGroup::counters has what
  /// each member moved over it.
  [[nodiscard]] const std::deque<FiberGroup>& groups() const { return groups_; }
  /// Throws LimitError (E0309) if a rank's peak was more than the device has. A run does not stop
  /// there, so that it can say how much is needed; who wants it to count as failed asks here.
  void require_device_memory() const;

  /// Calls that are legal here and may hang elsewhere, if the world is watched.
  [[nodiscard]] std::vector<Diagnosis> warnings() const;
  /// Waits of the ranks when one failed; empty if none has.
  [[nodiscard]] const std::vector<DiagnosisSide>& waiting() const { return waiting_; }
  /// Guesses who is to blame if the run stood still and has a chooser; the plainest come first.
  [[nodiscard]] const std::vector<Suspicion>& suspicions() const { return suspicions_; }

  // For runtimes, groups and communicators.
  [[nodiscard]] FiberGroup& everyone() { return groups_.front(); }
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
  /// The repair of this kind for an operation, if there is one; of `rank`, or of any (-1).
  [[nodiscard]] const CallRepair* repair_of(CallRepair::Kind kind, std::uint64_t group,
                                            std::int64_t sequence, int rank = -1) const;
  /// That of a send or receive.
  [[nodiscard]] const CallRepair* repair_of_half(std::uint64_t group, std::int64_t number,
                                                 int rank) const;
  /// Whether the call that is to be left out is this one; once.
  [[nodiscard]] bool leaves_out(std::uint64_t group, std::int64_t sequence, int rank);
  /// Whether a rank's send goes without its receiver.
  [[nodiscard]] bool sends_ahead(int rank, std::int64_t number) const;
  void note_open(FiberStream& stream);
  void note_closed(FiberStream& stream);
  FiberGroup& add_group(GroupKey key, std::vector<int> members, Twins twins = {});
  /// An equal text that lives as long as the world.
  const char* keep_name(const std::string& name) { return names_.insert(name).first->c_str(); }
  /// Adds up a stream's counters when its communicator goes.
  void retire(std::unique_ptr<FiberStream> stream);

 private:
  [[nodiscard]] Diagnosis explain(const Engine& engine) override;
  void note_waiting(const Engine& engine) override;
  void require_closed(const RankState& rank);
  void require_waited() const;
  void require_delivered() const;

  FiberOptions options_;
  std::unique_ptr<NetworkModel> network_;
  StreamRules rules_;
  Engine engine_;
  std::optional<BufferWatch> buffer_watch_;
  std::optional<OrderWatch> order_watch_;
  std::vector<Suspicion> suspicions_;
  bool left_out_ = false;
  std::vector<DiagnosisSide> waiting_;
  std::set<std::string> names_;
  std::deque<FiberGroup> groups_;
  std::vector<std::unique_ptr<FiberStream>> orphans_;  // Streams of which a Work is left.
  std::vector<FiberStream*> open_streams_;             // By rank, linked; of communicators.
  Mailbox mailbox_;
};

}  // namespace shardsim
