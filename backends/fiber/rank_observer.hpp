#pragma once

#include "sim/kernel/time.hpp"

#include "sim/hardware/compute_op.hpp"

#include "backends/fiber/fiber_operation.hpp"

namespace shardsim {

/// Sees what one rank does, for who wants to know more of it than counters and a trace. It may look
/// at the rank's state at any call, and must change nothing.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  /// The compute stream is busy with `op` from `begin` to `end`.
  virtual void computed(const ComputeOp& op, Time begin, Time end) = 0;
  /// The rank has posted an operation: what it will wait for, a batch as a whole.
  virtual void posted(const FiberOperation& operation) = 0;
  /// The rank is about to wait for it,
  virtual void waits(const FiberOperation& operation) = 0;
  /// and has waited. `member`: its rank in the operation's group.
  virtual void waited(const FiberOperation& operation, int member) = 0;
};

}  // namespace shardsim
