#pragma once

#include <vector>

#include "sim/kernel/time.hpp"

// A node of the run's max-plus graph: something that starts when all it depends on has ended and
// ends some time later. Collectives, point-to-point transfers and groups of them are operations.
// Its end may be unknown when the next operation is posted behind it; then that one follows.
namespace shardsim {

class Engine;
class RankState;

/// Life of an operation: `expect` its prerequisites; each is met once, by `settle` or `follow`.
/// When the last is met the engine queues it. When no rank is ready the engine launches the
/// earliest. From then on `end()` is known and everything behind it moves on.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Adds `count` prerequisites still to be met.
  void expect(int count) { pending_ += count; }
  /// Meets one prerequisite: the operation cannot start before `time`.
  void settle(Engine& engine, Time time);
  /// Meets one prerequisite by the end of `prior`, now or whenever that becomes known.
  void follow(Engine& engine, Operation& prior);

  [[nodiscard]] bool resolved() const { return resolved_; }
  /// Whether `other` waits for this one's end; for diagnosis.
  [[nodiscard]] bool is_followed_by(const Operation& other) const;
  /// REQUIRES: resolved().
  [[nodiscard]] Time start() const { return start_; }
  [[nodiscard]] Time end() const { return end_; }

 protected:
  /// Called once, by the engine, in order of start time: moves the data and returns the end.
  virtual Time launch(Time start) = 0;
  /// For composed operations, whose first part starts before the whole can be launched.
  void set_start(Time start) { start_ = start; }
  /// Back to the state of a new object, keeping capacity. REQUIRES: resolved, nobody waits.
  void recycle();

 private:
  friend class Engine;

  Time start_;
  Time end_;
  int pending_ = 0;
  bool resolved_ = false;
  RankState* waiters_ = nullptr;        // Intrusive list through RankState::next_waiter_.
  std::vector<Operation*> dependents_;  // One entry per prerequisite of theirs.
};

}  // namespace shardsim
