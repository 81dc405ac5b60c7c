#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/kernel/engine.hpp"
#include "sim/kernel/time.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/compute_op.hpp"

#include "backends/call.hpp"
#include "backends/group_traffic.hpp"

// Operations of the in-memory backend: what all of them have in common, and who sees them.
namespace shardsim {

class FiberGroup;

/// One message, as a member that sends or receives it counts it. Ranks in the group; from a member
/// to itself nothing moves.
struct MessageEnd {
  bool sends = false;
  int from = 0;
  int to = 0;
  std::int64_t bytes = 0;
};

/// An operation of one group, shared by the members that take part in it.
class FiberOperation : public Operation {
 public:
  [[nodiscard]] FiberGroup* group() const { return group_; }
  [[nodiscard]] std::int64_t sequence() const { return sequence_; }
  /// The call of the first member that posted it.
  [[nodiscard]] const CallRecord& record() const { return record_; }
  /// Traffic of `member` of the group. REQUIRES: resolved().
  [[nodiscard]] virtual Moved moved(int member) const = 0;
  /// Tells the group's GroupLinks what `member` has sent and received other than along the ring.
  virtual void count_off_ring(int member) const = 0;
  /// All of the two above, if it is one message. REQUIRES: resolved().
  [[nodiscard]] virtual std::optional<MessageEnd> message_end(int /*member*/) const {
    return std::nullopt;
  }
  /// The call of `member`, which differs from the first one's only where the two do different
  /// things: sending and receiving.
  [[nodiscard]] virtual const CallRecord& record_of(int /*member*/) const { return record_; }
  /// A member has waited for it.
  virtual void note_wait() {}
  /// Whether it is between two ranks, not of all of a group.
  [[nodiscard]] virtual bool is_transfer() const { return false; }
  /// TraceSlice::operation: from what identifies the communication, not from when it was formed.
  [[nodiscard]] virtual std::int64_t trace_id() const = 0;
  /// One of its members has waited for it (or given it up); the last one frees it for reuse.
  virtual void release() = 0;
  /// Members (ranks in the group) that have not posted it yet.
  [[nodiscard]] virtual std::vector<int> missing() const = 0;
  /// Members that have.
  [[nodiscard]] virtual std::vector<int> arrived() const = 0;

  [[nodiscard]] bool in_use() const { return in_use_; }

 protected:
  /// Takes a fresh or recycled object into use; `record` is the first caller's.
  void reopen(FiberGroup& group, std::int64_t sequence, const CallRecord& record) {
    reopen(group, sequence);
    record_ = record;
  }
  /// The same with the old record, for who writes what differs.
  void reopen(FiberGroup& group, std::int64_t sequence) {
    recycle();
    group_ = &group;
    sequence_ = sequence;
    in_use_ = true;
  }

  FiberGroup* group_ = nullptr;
  std::int64_t sequence_ = 0;
  bool in_use_ = false;
  CallRecord record_;
};

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
