#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/hardware/collective.hpp"

#include "backends/communicator.hpp"

// One call of a communicator as a value: what a backend gets, and what a wrapper sees. The typed
// calls of Communicator fill it on the stack after they have checked its arguments. All pointers
// and spans hold during `post` only. To change a call, make another by a typed call: the record
// repeats parts of the options.
//
// Calls of several members that should be one operation and are not are compared and reported here,
// the same on every backend.
namespace shardsim {

/// The request of one call, in the form that other members compare.
struct CallRecord {
  static constexpr int kNoTag = -2;
  const char* name = "";  ///< "all_reduce", "send", ...
  ReduceOp reduce = ReduceOp::sum;
  bool reduces = false;
  DType dtype = DType::fp32;
  int root = -1;           ///< Or the peer of a send or receive; -1: none, or any.
  int tag = kNoTag;        ///< For a tagged message; kAnyTag: any.
  std::int64_t count = 0;  ///< Elements of the full buffer.
  const char* label = "";
  std::uint64_t counts_hash = 0;  ///< Hash of uneven chunk sizes, or of padding ranges.
  std::int64_t padding = 0;
  TrafficClass traffic = TrafficClass::payload;
  CallSite site;

  /// "all_reduce sum fp32 x 128 \"bucket 3\"".
  [[nodiscard]] std::string describe() const;
  /// Ranks that have made it.
  [[nodiscard]] DiagnosisSide side_of(std::vector<int> ranks) const;
};

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
[[nodiscard]] std::vector<std::int64_t> chunk_offsets(const CollectiveRow& row, std::int64_t count,
                                                      std::span<const std::int64_t> counts,
                                                      int size);

/// Whether two names or labels are the same text; quickest where they are the same literal.
[[nodiscard]] inline bool same_text(const char* a, const char* b) {
  return a == b || std::strcmp(a, b) == 0;
}

/// Whether both are the same call of a collective; where it was made may differ. Inline: each rank
/// of a group asks it at each call.
[[nodiscard]] inline bool same_call(const CallRecord& a, const CallRecord& b) {
  return same_text(a.name, b.name) && a.reduces == b.reduces && a.reduce == b.reduce &&
         a.dtype == b.dtype && a.root == b.root && a.count == b.count &&
         a.counts_hash == b.counts_hash && a.padding == b.padding && a.traffic == b.traffic &&
         same_text(a.label, b.label);
}

/// Whether a send and a receive are one message.
[[nodiscard]] bool same_message(const CallRecord& send, const CallRecord& recv);

struct MadeCall {
  int rank = 0;  ///< In the world.
  CallRecord record;
};

/// Code, summary, sides and hint of a collective that `agreeing` ranks called as `agreed`, and
/// `others` otherwise. REQUIRES: `others` is not empty and differs from `agreed`.
[[nodiscard]] Diagnosis explain_mismatched_calls(const std::string& group, std::int64_t sequence,
                                                 const CallRecord& agreed,
                                                 std::vector<int> agreeing,
                                                 std::span<const MadeCall> others);

/// The same of a message.
[[nodiscard]] Diagnosis explain_mismatched_message(std::int64_t sequence, const MadeCall& sender,
                                                   const MadeCall& receiver);

[[nodiscard]] std::vector<int> ascending(std::vector<int> ranks);

/// Ranks by what they do: one side per action. The site is that of the first rank.
class SideTable {
 public:
  DiagnosisSide& add(int rank, const std::string& action, CallSite site = {});
  /// Puts the sides behind `sides`, in the order of actions; ranks ascend.
  void append_to(std::vector<DiagnosisSide>& sides);

 private:
  std::map<std::string, DiagnosisSide> by_action_;
};

/// The likely culprit first: the smaller set, among equals the one with the lower first rank.
void sort_sides(Diagnosis& diagnosis);

}  // namespace shardsim
