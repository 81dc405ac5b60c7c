#pragma once

#include <functional>
#include <memory>

// Two works of one rank that take turns. Where one of them would wait for what it has posted, it
// passes the turn: the other computes meanwhile.
namespace shardsim {

class Turns {
 public:
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Runs both on the calling thread; `first` begins. Returns when both have ended. If one throws,
  /// the other one's stack is unwound, and the exception leaves from here. `takes`: told whenever
  /// one of them takes the turn, whether it is the second. `fills`: what the second does before it
  /// leaves each of its calls of pass().
  void run(const std::function<void()>& first, const std::function<void()>& second,
           const std::function<void(bool is_second)>& takes = {},
           const std::function<void()>& fills = {});
  /// Where the other work has not ended, it goes on, and this returns when it passes the turn or
  /// ends. Without run() nothing happens. Not to be called while an exception is handled.
  void pass();

 private:
  class Pair;
  std::unique_ptr<Pair> pair_;  // Made at the first run.
};

}  // namespace shardsim
