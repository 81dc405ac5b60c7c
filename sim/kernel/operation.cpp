#include "sim/kernel/operation.hpp"

#include <algorithm>

#include "sim/kernel/engine.hpp"

namespace shardsim {

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
  return std::find(dependents_.begin(), dependents_.end(), &other) != dependents_.end();
}

void Operation::recycle() {
  start_ = Time();
  end_ = Time();
  pending_ = 0;
  resolved_ = false;
}

}  // namespace shardsim
