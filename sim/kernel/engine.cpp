#include "sim/kernel/engine.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <boost/fiber/fiber.hpp>

#include "sim/kernel/fiber_scheduler.hpp"

namespace shardsim {

namespace {

// Hands the fibers of one run their stacks in order; they all go when the slab goes.
class SlabAllocator {
 public:
  using traits_type = boost::context::stack_traits;
  SlabAllocator(StackSlab& slab, std::size_t index) : slab_(&slab), index_(index) {}
  boost::context::stack_context allocate() { return slab_->stack(index_); }
  void deallocate(boost::context::stack_context&) noexcept {}

 private:
  StackSlab* slab_;
  std::size_t index_;
};

// Heap order: the earliest start on top; among equals, the one queued first.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.start != b.start ? a.start > b.start : a.order > b.order;
};

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
  RankScheduler& scheduler = RankScheduler::install();
  scheduler.set_interleaving(options_.interleaving_seed);
  {
    SlabLease stacks(ranks_.size(), options_.stack_bytes);
    std::vector<boost::fibers::fiber> fibers;
    fibers.reserve(ranks_.size());
    num_alive_ = static_cast<int>(ranks_.size());
    for (RankState& rank : ranks_) {
      fibers.emplace_back(boost::fibers::launch::post, std::allocator_arg,
                          SlabAllocator(stacks.slab(), fibers.size()),
                          [this, &rank, &body] { run_rank(rank, body); });
    }
    maestro();
    for (boost::fibers::fiber& fiber : fibers) fiber.join();
    fibers.clear();
    scheduler.release_finished_fibers();  // Before their stacks go.
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Engine::maestro() {
  while (true) {
    RankScheduler::run_ready_ranks();
    if (num_alive_ == 0) return;
    if (failure_) {
      if (explainer_ != nullptr && !cancelling_) explainer_->note_waiting(*this);
      cancel_all();
    } else if (arbiter_ != nullptr && arbiter_->decide(next_start())) {
      continue;
    } else if (launches_.empty()) {
      fail(explainer_ != nullptr
               ? explainer_->explain(*this)
               : Diagnosis{.code = "DEADLOCK", .summary = "every rank waits", .sides = {}});
    } else {
      launch_next();
    }
  }
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
  rank.context_ = boost::fibers::context::active();
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

void Engine::await(RankState& rank, Operation& operation) {
  tick();
  if (operation.resolved_) return;
  if (cancelling_) throw RankCancelled();
  rank.blocked_on_ = &operation;
  rank.next_waiter_ = std::exchange(operation.waiters_, &rank);
  suspend_fiber();
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
    boost::fibers::context::active()->schedule(rank.context_);
  }
}

void Engine::enqueue(Operation& operation) {
  launches_.push_back({operation.start_, num_launched_++, &operation});
  if (options_.launch_order == LaunchOrder::earliest_start) {
    std::push_heap(launches_.begin(), launches_.end(), kLater);
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
  const Launch launch = launches_.back();
  launches_.pop_back();
  try {
    launch.operation->end_ = launch.operation->launch(launch.start);
    resolve(*launch.operation);
  } catch (const std::bad_alloc&) {
    keep_first(launch.start, -1, std::make_exception_ptr(out_of_memory()));
  } catch (...) {  // A price out of range, say. The ranks must unwind before it leaves `run`.
    keep_first(launch.start, -1, std::current_exception());
  }
}

void Engine::resolve(Operation& operation) {
  operation.resolved_ = true;
  boost::fibers::context* active = boost::fibers::context::active();
  RankState* waiter = std::exchange(operation.waiters_, nullptr);
  while (waiter != nullptr) {
    RankState* next = std::exchange(waiter->next_waiter_, nullptr);
    active->schedule(waiter->context_);
    waiter = next;
  }
  for (Operation* dependent : operation.dependents_) dependent->settle(*this, operation.end_);
  operation.dependents_.clear();
}

std::uint64_t Engine::trace_hash() const { return trace_hash_of(ranks_); }

void Operation::settle(Engine& engine, Time time) {
  start_ = max(start_, time);
  if (--pending_ == 0) engine.enqueue(*this);
}

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
