#pragma once

#include <exception>
#include <functional>
#include <memory>

#include <boost/context/fiber.hpp>

// Two works of one rank that take turns. What one of them posts goes on while the other computes:
// where it would wait for it, it passes the turn instead.
namespace shardsim {

class Turns {
 public:
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Runs both on the calling thread; `first` begins. Returns when both have ended. If one throws,
  /// the other one's stack is unwound, and the exception leaves from here.
  void run(const std::function<void()>& first, const std::function<void()>& second);
  /// Where the other work has not ended, it goes on, and this returns when it passes the turn or
  /// ends. Without another work nothing happens.
  void pass();

 private:
  class Stack;

  boost::context::fiber first_;   // Where it goes on; empty while it runs.
  boost::context::fiber second_;  // Empty while it runs, and when it has ended.
  std::unique_ptr<Stack> stack_;  // The second's, kept for the next.
  std::exception_ptr error_;      // Of the second.
  bool runs_ = false;             // Both have not ended.
  bool is_second_ = false;        // It has the turn.
  bool has_first_ended_ = false;
};

}  // namespace shardsim
