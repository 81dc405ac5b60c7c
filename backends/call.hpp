#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/hardware/collective.hpp"

#include "backends/call_record.hpp"
#include "backends/communicator.hpp"

// One call of a communicator as a value: what a backend gets, and what a wrapper sees. The typed
// calls of Communicator fill it on the stack after they have checked its arguments. All pointers
// and spans hold during `post` only. To change a call, make another by a typed call: the record
// repeats parts of the options.
namespace shardsim {

enum class CallKind : std::uint8_t { collective, send, recv, batch };

struct Call {
  CallKind kind = CallKind::collective;
  CollectiveKind collective = collective::kBarrier;  ///< For a collective; never split.
  /// All that members compare: name, reduce op, dtype, root or peer, elements, site.
  CallRecord record;
  const CallOptions* options = nullptr;  ///< Never null.
  /// Never null for a collective, but undefined where the call has no such buffer. In place: twice
  /// the same.
  const Tensor* output = nullptr;
  const Tensor* input = nullptr;
  /// One count per member and direction of an all_to_all, filled in where the caller gave none.
  std::span<const std::int64_t> send_counts = {};
  std::span<const std::int64_t> recv_counts = {};
  std::span<const P2pOp> halves = {};  ///< For send and recv (one) and batch.
};

/// Offsets of the members' chunks in the full buffer of a collective, and its end: size + 1 values.
/// Calls that only reduce or broadcast cut it nearly evenly, others by their counts.
[[nodiscard]] std::vector<std::int64_t> chunk_offsets(const Call& call, int size);

}  // namespace shardsim
