#include "sim/kernel/engine.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "sim/kernel/fiber_scheduler.hpp"

namespace shardsim {

namespace {

// Heap order: the earliest start on top; among equals, the one queued first.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.start != b.start ? a.start > b.start : a.order > b.order;
};

// So many looks in a row at operations without an end, while none can be launched, go on for ever.
constexpr int kFewestIdleLooks = 100000;
constexpr int kIdleLooksPerRank = 1000;

LimitError out_of_memory() {
  return {"E0308", "the host ran out of memory",
          "use fewer ranks or a smaller model, or tensors without data (execution.tensors=meta)"};
}

// The exception being handled, as the run reports it.
std::exception_ptr name_failure(int rank) {
  try {
    throw;
  } catch (const CommunicationError&) {
    return std::current_exception();  // Names its ranks itself.
  } catch (const Error& error) {
    return std::make_exception_ptr(RankFailed(rank, error));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(RankFailed(rank, out_of_memory()));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(
        RankFailed(rank, Error(ExitCode::internal, "E7001", error.what())));
  } catch (...) {
    return std::current_exception();  // A test framework's own exception.
  }
}

}  // namespace

Engine::Engine(EngineOptions options) : options_(std::move(options)) {
  add_ranks();
  if (options_.on_progress) ticks_left_ = options_.progress_interval;
}

Engine::~Engine() = default;

void Engine::add_ranks() {
  const std::vector<int>& representative = options_.representative;
  const int num_ranks = options_.num_ranks;
  int running = num_ranks;
  if (!representative.empty()) {
    running = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (representative.at(static_cast<std::size_t>(rank)) == rank) ++running;
    }
  }
  if (running < 1 || running > kMaxRanks) {
    throw LimitError(
        "E0306",
        std::to_string(running) + " ranks: the engine runs 1 to " + std::to_string(kMaxRanks),
        "use at most " + std::to_string(kMaxRanks) + " ranks");
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    const int by = representative.empty() ? rank : representative[static_cast<std::size_t>(rank)];
    if (by == rank) ranks_.emplace_back(rank);
    if (representative.empty()) continue;
    // A rank's representative comes before it, and so has its place already.
    places_.push_back(by == rank ? static_cast<int>(ranks_.size()) - 1
                                 : places_.at(static_cast<std::size_t>(by)));
  }
}

void Engine::run(const RankBody& body) {
  {
    SlabLease stacks(ranks_.size(), options_.stack_bytes);
    scheduler_ = std::make_unique<RankScheduler>(ranks_.size(), options_.interleaving_seed);
    num_alive_ = static_cast<int>(ranks_.size());
    for (RankState& rank : ranks_) {
      rank.fiber_ =
          &scheduler_->start(stacks.slab(), [this, &rank, &body] { run_rank(rank, body); });
    }
    maestro();
    scheduler_.reset();  // Before the stacks go.
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Engine::maestro() {
  while (true) {
    scheduler_->run_ready_ranks();
    if (num_alive_ == 0) return;
    if (advance()) continue;
    if (failure_) {
      if (explainer_ != nullptr && !cancelling_) explainer_->note_waiting(*this);
      cancel_all();
    } else {
      fail(explainer_ != nullptr
               ? explainer_->explain(*this)
               : Diagnosis{.code = "DEADLOCK", .summary = "every rank waits", .sides = {}});
    }
  }
}

std::optional<Time> Engine::next_start() const {
  if (launches_.empty()) return std::nullopt;
  return options_.launch_order == LaunchOrder::earliest_start ? launches_.front().start
                                                              : launches_.back().start;
}

void Engine::launch_next() {
  // One at a time: its members run on while they are still in the caches.
  if (options_.launch_order == LaunchOrder::earliest_start) {
    std::pop_heap(launches_.begin(), launches_.end(), kLater);
  } else if (options_.launch_order == LaunchOrder::drawn) {
    drawn_.add(options_.interleaving_seed);
    std::swap(launches_[drawn_.value() % launches_.size()], launches_.back());
  }
  const Time start = launches_.back().start;
  Operation& operation = *launches_.back().operation;
  launches_.pop_back();
  try {
    operation.end_ = operation.launch(start);
    resolve(operation);
  } catch (const std::bad_alloc&) {
    keep_first(start, -1, std::make_exception_ptr(out_of_memory()));
  } catch (...) {  // A price out of range, say. The ranks must unwind before it leaves `run`.
    keep_first(start, -1, std::current_exception());
  }
}

void Engine::resolve(Operation& operation) {
  operation.resolved_ = true;
  RankState* waiter = std::exchange(operation.waiters_, nullptr);
  while (waiter != nullptr) {
    RankState* next = std::exchange(waiter->next_waiter_, nullptr);
    scheduler_->ready(*waiter->fiber_);
    waiter = next;
  }
  for (Operation* dependent : operation.dependents_) dependent->settle(*this, operation.end_);
  operation.dependents_.clear();
}

bool Engine::can_launch_by(Time time) const {
  return std::ranges::any_of(launches_, [time](const Launch& each) { return each.start <= time; });
}

void Engine::sound_alarm() {
  const Alarm alarm = alarms_.take_next();
  num_idle_alarms_ = launches_.empty() && !alarm.has_end() ? num_idle_alarms_ + 1 : 0;
  scheduler_->ready(*alarm.rank->fiber_);
}

// Ranks that look for ever are stalled.
bool Engine::may_look() const {
  return num_idle_alarms_ < std::max(kFewestIdleLooks, kIdleLooksPerRank * num_alive_);
}

bool Engine::advance() {
  if (failure_) return false;
  const std::optional<Time> alarm = alarms_.next();
  if (arbiter_ != nullptr && arbiter_->has_choices()) {
    std::optional<Time> next = next_start();
    const std::optional<Time> end = alarms_.next_end();
    if (end) next = next ? std::min(*next, *end) : *end;
    if (arbiter_->decide(next, alarm)) return true;
  }
  // All that could end by then has started by then.
  if (alarm && may_look() && !can_launch_by(*alarm)) {
    sound_alarm();
    return true;
  }
  if (!launches_.empty()) {
    num_idle_alarms_ = 0;
    launch_next();
    return true;
  }
  if (ranks_outside_.empty()) return false;
  try {
    outside_->wait_for_ranks();
  } catch (...) {
    keep_first(Time(), -1, std::current_exception());
    return false;
  }
  return true;
}

Time Engine::await_any(RankState& rank, std::span<Operation* const> operations,
                       std::optional<Time> at_most) {
  tick();
  if (cancelling_) throw RankCancelled();
  const Alarm alarm{.rank = &rank, .operations = operations, .at_most = at_most};
  alarms_.add(alarm);
  rank.blocked_on_ = operations.front();  // A report of a stall names it.
  while (options_.ranks_advance && !scheduler_->has_ready() && advance()) {
  }
  scheduler_->suspend();
  rank.blocked_on_ = nullptr;
  if (cancelling_) throw RankCancelled();
  return *alarm.time();
}

void Engine::wait_outside(RankState& rank) {
  if (cancelling_) throw RankCancelled();
  ranks_outside_.push_back(&rank);
  scheduler_->suspend();
  if (cancelling_) throw RankCancelled();
}

void Engine::come_back(RankState& rank) {
  if (std::erase(ranks_outside_, &rank) > 0) scheduler_->ready(*rank.fiber_);
}

void Engine::tell_progress() {
  ticks_left_ = options_.progress_interval;
  if (!cancelling_) options_.on_progress();  // It may throw to end the run: once.
}

void Engine::keep_first(Time time, int rank, std::exception_ptr failure) {
  if (cancelling_) return;  // A consequence of the failure that ended the run.
  if (failure_ && std::pair(failure_time_, failure_rank_) <= std::pair(time, rank)) return;
  failure_ = std::move(failure);
  failure_time_ = time;
  failure_rank_ = rank;
}

void Engine::run_rank(RankState& rank, const RankBody& body) {
  try {
    tick();
    if (!cancelling_) body(rank);
  } catch (const RankCancelled&) {
    // The run ended elsewhere; this rank's stack is unwound now.
  } catch (...) {
    keep_first(rank.now(), rank.index(), name_failure(rank.index()));
  }
  rank.finished_ = true;
  --num_alive_;
}

void Engine::block(RankState& rank, Operation& operation) {
  if (cancelling_) throw RankCancelled();
  rank.blocked_on_ = &operation;
  rank.next_waiter_ = std::exchange(operation.waiters_, &rank);
  // The last rank that waits does the maestro's work: mostly a rank that it wakes is next.
  while (options_.ranks_advance && !scheduler_->has_ready() && advance()) {
  }
  scheduler_->suspend();
  rank.blocked_on_ = nullptr;
  if (cancelling_) throw RankCancelled();
}

void Engine::fail(Diagnosis diagnosis, int rank) {
  const Time time = diagnosis.time;
  keep_first(time, rank, std::make_exception_ptr(CommunicationError(std::move(diagnosis))));
}

void Engine::cancel_all() {
  cancelling_ = true;
  for (RankState& rank : ranks_) {
    if (rank.blocked_on_ == nullptr) continue;
    rank.blocked_on_->waiters_ = nullptr;
    rank.blocked_on_ = nullptr;
    scheduler_->ready(*rank.fiber_);
  }
  alarms_.clear();
  for (const RankState* rank : ranks_outside_) scheduler_->ready(*rank->fiber_);
  ranks_outside_.clear();
}

void Engine::expect(const RankState& rank) {
  RankScheduler::expect(*rank.fiber_);
  const char* const state = reinterpret_cast<const char*>(&rank);
  for (std::ptrdiff_t line = 0; line < 5; ++line) __builtin_prefetch(state + 64 * line, 1);
}

void Engine::sift_last_launch() { std::push_heap(launches_.begin(), launches_.end(), kLater); }

std::uint64_t Engine::trace_hash() const { return trace_hash_of(ranks_); }

void Operation::follow(Engine& engine, Operation& prior) {
  if (prior.resolved_) {
    settle(engine, prior.end_);
  } else {
    prior.dependents_.push_back(this);
  }
}

bool Operation::is_followed_by(const Operation& other) const {
  return std::ranges::find(dependents_, &other) != dependents_.end();
}

void Operation::recycle() {
  start_ = Time();
  end_ = Time();
  pending_ = 0;
  resolved_ = false;
}

RankFailed::RankFailed(int rank, const Error& cause)
    : Error(cause.exit_code(), cause.code(),
            "rank " + std::to_string(rank) + " failed: " + cause.what(), cause.fix()),
      rank_(rank) {}

}  // namespace shardsim
