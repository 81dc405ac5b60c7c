#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/hardware/collective.hpp"

// A collective as one member's list of messages. A pure function of the call: tables in tests. Its
// sums are a member's traffic in sim/hardware/collective.hpp. The plans of all members, carried out
// over ordered point-to-point messages, make the collective.
namespace shardsim {

/// Elements [begin, begin + count) of the full buffer.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// One message of this member.
struct MessageStep {
  enum class Kind : std::uint8_t {
    send,
    receive,
    receive_reduced,  ///< Combines arriving and present elements: arrived (op) own.
  };
  Kind kind = Kind::send;
  int peer = 0;
  Slice slice;
  int buffer = -1;  ///< Index of a batch's buffer; -1: the call's.
};

/// Messages of one round travel together; the next round starts when they have all arrived.
/// Receives that reduce are combined in the order they stand in.
struct MessageRound {
  std::vector<MessageStep> messages;
  /// All contributions to this slice are in: an average is divided here, once. Empty: not yet.
  Slice completed;
};

struct MessagePlan {
  std::vector<MessageRound> rounds;
};

/// The call of a plan. `offsets`: starts of the members' chunks in the full buffer, and its end:
/// size + 1 values.
struct MessageCall {
  CollectiveKind kind = collective::kAllReduce;
  int size = 1;
  int member = 0;
  int root = -1;
  std::span<const std::int64_t> offsets;
};

/// Ring for all_reduce, reduce_scatter, all_gather; chain along the ring for broadcast and reduce;
/// direct messages for gather and scatter. A reduction of chunk c starts at member c + 1 and goes
/// around the ring (ReductionOrder::wire); empty slices are sent, too: messages are counted.
/// REQUIRES: kind is one of these.
[[nodiscard]] MessagePlan plan_messages(const MessageCall& call);

/// all_reduce by the double tree: one half of the data per tree, up and down.
[[nodiscard]] MessagePlan plan_tree_messages(const DoubleTree& tree, int size, int member,
                                             std::int64_t count);

/// Pairwise: in round s to member + s and from member - s; nothing for a peer, no message. Slices
/// of sends are of the input, those of receives of the output; what a member keeps is not in it.
[[nodiscard]] MessagePlan plan_pairwise_messages(int member, std::span<const std::int64_t> send,
                                                 std::span<const std::int64_t> receive);

}  // namespace shardsim
