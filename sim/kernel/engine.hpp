#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/kernel/alarms.hpp"
#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/engine_hooks.hpp"
#include "sim/kernel/operation.hpp"
#include "sim/kernel/rank_state.hpp"

// The engine runs one fiber per rank on the calling thread and advances virtual time. Ranks run
// ahead freely: computing only adds to their own clock. When no rank is ready, the maestro (the
// caller's own context) launches an operation that can start. Without one the run is stalled: it is
// explained, every fiber unwinds and joins, and `run` throws.
namespace shardsim {

class RankScheduler;

/// Thrown into ranks that wait when the run ends early, so that their stacks unwind. Not derived
/// from std::exception: strategies must not mistake it for a failure of their own.
struct RankCancelled {};

/// The order in which operations that can start are launched.
enum class LaunchOrder : std::uint8_t {
  /// In order of virtual time: for prices that depend on what else is under way.
  earliest_start,
  /// The one queued last, whose ranks are still in the caches. If prices do not depend on the
  /// order, the report of a run does not either.
  newest_first,
  /// Drawn from interleaving_seed: the order in which operations end changes, too.
  drawn,
};

struct EngineOptions {
  int num_ranks = 1;
  /// By rank, its representative: a rank that runs itself, and no higher one. Empty: all run.
  std::vector<int> representative;
  /// Address space per fiber; only what is touched becomes resident.
  std::size_t stack_bytes = std::size_t{256} * 1024;
  /// 0: ready ranks run in the order they became ready. Otherwise in an order drawn from this seed;
  /// nothing a run reports may depend on it.
  std::uint64_t interleaving_seed = 0;
  LaunchOrder launch_order = LaunchOrder::earliest_start;
  /// A rank that waits while no other is ready does the maestro's work on its own stack, in the
  /// same order. For operations that need little stack, and an arbiter that does.
  bool ranks_advance = false;
  /// Called every `progress_interval` ticks: often enough to tell a person, seldom enough that
  /// asking for the time of day costs nothing. If it throws, the run ends with that.
  std::function<void()> on_progress;
  std::uint64_t progress_interval = 1U << 12U;
};

class Engine {
 public:
  /// Ranks with fibers: two memory mappings each stay below Linux's default of 65,530.
  static constexpr int kMaxRanks = 16384;

  /// Throws LimitError if fewer than 1 or more than kMaxRanks are to run.
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  using RankBody = std::function<void(RankState&)>;
  /// Runs `body` once per rank that runs until all have returned. Throws the exception of the first
  /// failing rank, or CommunicationError when stalled; all fibers have joined then. An Error is
  /// rethrown as RankFailed naming the rank, std::bad_alloc likewise, as a limit. When several
  /// ranks fail before the maestro takes over, the first is the one with the least (virtual time,
  /// rank), whatever order they ran in. To be called once.
  void run(const RankBody& body);

  /// Suspends the calling rank until `operation` is resolved. REQUIRES: called from its fiber.
  void await(RankState& rank, Operation& operation) {
    tick();
    if (!operation.resolved()) block(rank, operation);
  }
  /// The same, and moves its compute stream to the end.
  void wait(RankState& rank, Operation& operation, bool is_transfer = false,
            const StreamRules& rules = {}) {
    await(rank, operation);
    rank.wait(operation.start(), operation.end(), is_transfer, rules);
  }

  /// Suspends the calling rank until its virtual time is known to have come to `at_most`, or one of
  /// `operations` has ended; all that end by then are resolved. Returns the time, its own `now()`
  /// at least. REQUIRES: called from its fiber.
  Time await_any(RankState& rank, std::span<Operation* const> operations,
                 std::optional<Time> at_most);

  /// Counts an action of a rank. Ranks tick by themselves when they start and wait. The backend
  /// ticks in between, for a rank may compute for long.
  void tick() {
    if (--ticks_left_ == 0) tell_progress();
  }

  void set_stall_explainer(StallExplainer* explainer) { explainer_ = explainer; }
  void set_arbiter(Arbiter* arbiter) { arbiter_ = arbiter; }
  void set_outside(OutsideEvents* outside) { outside_ = outside; }
  /// Suspends the calling rank until `come_back` is called for it. REQUIRES: called from its fiber,
  /// and there is an OutsideEvents.
  void wait_outside(RankState& rank);
  void come_back(RankState& rank);
  /// Records a failure of `rank` (-1: of none) that it cannot throw; the run ends at the next
  /// occasion.
  void fail(Diagnosis diagnosis, int rank = -1);
  /// True once the run is ending early: destructors must not post or report anymore.
  [[nodiscard]] bool cancelling() const { return cancelling_; }

  [[nodiscard]] int num_ranks() const { return options_.num_ranks; }
  /// The state of the rank that runs in the place of `index`: mostly its own.
  [[nodiscard]] RankState& rank(int index) { return ranks_[place_of(index)]; }
  [[nodiscard]] const RankState& rank(int index) const { return ranks_[place_of(index)]; }
  [[nodiscard]] bool runs(int index) const { return rank(index).index() == index; }
  /// The hashes of all ranks that run, in rank order. It does not depend on how fibers interleaved.
  [[nodiscard]] std::uint64_t trace_hash() const;

 private:
  friend class Operation;
  struct Launch {
    Time start;
    std::uint64_t order;
    Operation* operation;
  };

  [[nodiscard]] std::size_t place_of(int index) const {
    const auto rank = static_cast<std::size_t>(index);
    return places_.empty() ? rank : static_cast<std::size_t>(places_[rank]);
  }
  void add_ranks();
  void enqueue(Operation& operation);
  void sift_last_launch();
  static void expect(const RankState& rank);
  [[nodiscard]] std::optional<Time> next_start() const;
  inline void launch_next();
  inline void resolve(Operation& operation);
  void block(RankState& rank, Operation& operation);
  [[nodiscard]] bool can_launch_by(Time time) const;
  void sound_alarm();
  [[nodiscard]] bool may_look() const;
  void run_rank(RankState& rank, const RankBody& body);
  void keep_first(Time time, int rank, std::exception_ptr failure);
  void cancel_all();
  void maestro();
  /// Decides or launches one thing. False if there is none, or the run has failed.
  bool advance();
  void tell_progress();

  EngineOptions options_;
  std::deque<RankState> ranks_;               // Those that run, ascending.
  std::vector<int> places_;                   // By rank, in ranks_; empty if all run.
  std::unique_ptr<RankScheduler> scheduler_;  // While it runs.
  std::vector<Launch> launches_;              // A heap or a stack, see LaunchOrder.
  std::uint64_t num_launched_ = 0;
  std::uint64_t ticks_left_ = 0;  // From 0 it counts down for ever: progress is not reported.
  int num_alive_ = 0;
  bool cancelling_ = false;
  std::exception_ptr failure_;
  Time failure_time_;  // Decides, with the rank, which failure is first.
  int failure_rank_ = -1;
  StallExplainer* explainer_ = nullptr;
  Arbiter* arbiter_ = nullptr;
  OutsideEvents* outside_ = nullptr;
  std::vector<RankState*> ranks_outside_;
  Alarms alarms_;            // Ranks wait for one of several ends, or for a time.
  int num_idle_alarms_ = 0;  // Since something was launched.
  RollingHash drawn_;        // See LaunchOrder::drawn.
};

inline void Engine::enqueue(Operation& operation) {
  launches_.push_back({operation.start_, num_launched_++, &operation});
  if (options_.launch_order == LaunchOrder::earliest_start) sift_last_launch();
  if (operation.waiters_ != nullptr) expect(*operation.waiters_);
}

inline void Operation::settle(Engine& engine, Time time) {
  start_ = max(start_, time);
  if (--pending_ == 0) engine.enqueue(*this);
}

/// A rank's body threw an Error: the same code, exit code and fix, with the rank named.
class RankFailed : public Error {
 public:
  RankFailed(int rank, const Error& cause);
  [[nodiscard]] int rank() const { return rank_; }

 private:
  int rank_;
};

}  // namespace shardsim
