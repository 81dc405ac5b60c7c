#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sim/kernel/call_site.hpp"

#include "backends/rank_span.hpp"
#include "backends/tensor.hpp"
#include "backends/traffic_counters.hpp"
#include "backends/work.hpp"

// The network as strategies see it. Semantics are NCCL's. Calls are posted without blocking and
// return a Work. All members of a communicator make the same calls in the same order. Operations of
// one communicator run in order on a stream of their own. Point-to-point is a rendezvous without
// tags. A call that would hang on NCCL deadlocks here, and is explained.
namespace shardsim {

struct Call;
struct Diagnosis;
class TaggedMessages;
enum class CollectiveKind : std::uint8_t;  // sim/hardware/collective_rows.hpp

enum class ReduceOp : std::uint8_t { sum, avg, min, max, product };
[[nodiscard]] const char* name_of(ReduceOp op);

/// The color of a member that joins no group of a split (ncclCommSplit's NCCL_SPLIT_NOCOLOR).
inline constexpr int kNoColor = -1;

/// The class in which a call's bytes are counted. Formulas cover payload; norms, losses, token
/// counts and other scalars are counted apart.
enum class TrafficClass : std::uint8_t { payload, scalar };

/// Elements [begin, end) of a buffer.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// How many elements of [begin, end) lie in `ranges`. REQUIRES: these are disjoint.
[[nodiscard]] inline std::int64_t overlap(std::span<const ElementRange> ranges, std::int64_t begin,
                                          std::int64_t end) {
  std::int64_t sum = 0;
  for (const ElementRange& range : ranges) {
    const std::int64_t from = std::max(range.begin, begin);
    sum += std::max<std::int64_t>(std::min(range.end, end) - from, 0);
  }
  return sum;
}

/// Options of one call; every member must give equal ones, but for `after`.
struct CallOptions {
  /// Name of the data, e.g. "bucket 3"; outlives the run. Members with different labels mismatch.
  const char* label = "";
  /// Start when this (pending) work has ended, instead of when the compute stream gets here.
  const Work* after = nullptr;
  /// Elements of each member's chunk, for all_gather, reduce_scatter, gather and scatter; empty:
  /// equal chunks. Only read during the call.
  std::span<const std::int64_t> counts = {};
  /// Elements of the full buffer that only fill it up; counted apart from payload.
  std::int64_t padding = 0;
  /// Ranges of that padding, ascending; empty: at the end. Only read during the call.
  std::span<const ElementRange> padding_at = {};
  TrafficClass traffic = TrafficClass::payload;
};

/// One half of a point-to-point transfer within a batch.
struct P2pOp {
  enum class Kind : std::uint8_t { send, recv };
  Kind kind;
  Tensor buffer;
  int peer;
};

/// A group of ranks that communicate. Chunk r of a buffer belongs to member r. Buffers of a call
/// have one dtype; element counts are checked on the calling rank, agreement when members meet.
/// An undefined buffer is refused (ARG_RANGE) by every call that would read or write it.
///
/// The typed calls check their arguments and fill one Call (backends/call.hpp). A backend
/// implements `post` and `split`; to wrap a communicator, derive from
/// backends/wrapping_communicator.hpp.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// The axis or purpose it was created for.
  [[nodiscard]] virtual const std::string& name() const = 0;

  /// This member's traffic over it so far, by calls that have been waited for; null if not counted.
  /// For measurements; strategies must not use it.
  [[nodiscard]] virtual const TrafficCounters* counters() const { return nullptr; }

  /// In place.
  Work all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options = {},
                  CallSite site = CallSite::here());
  /// `input` is the full buffer, `output` this member's chunk of the reduction; `output` may be
  /// that chunk of `input`.
  Work reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                      const CallOptions& options = {}, CallSite site = CallSite::here());
  /// `input` is this member's chunk, `output` the full buffer; `input` may be its chunk of
  /// `output`.
  Work all_gather(const Tensor& output, const Tensor& input, const CallOptions& options = {},
                  CallSite site = CallSite::here());
  /// Sends `send_counts[j]` consecutive elements to member j. Empty counts: equal chunks.
  Work all_to_all(const Tensor& output, const Tensor& input,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> recv_counts, const CallOptions& options = {},
                  CallSite site = CallSite::here());
  Work broadcast(const Tensor& buffer, int root, const CallOptions& options = {},
                 CallSite site = CallSite::here());
  /// In place at the root; other members' buffers keep their values.
  Work reduce(const Tensor& buffer, ReduceOp op, int root, const CallOptions& options = {},
              CallSite site = CallSite::here());
  /// `output` is read at the root only and may be undefined elsewhere.
  Work gather(const Tensor& output, const Tensor& input, int root, const CallOptions& options = {},
              CallSite site = CallSite::here());
  /// `input` is read at the root only and may be undefined elsewhere.
  Work scatter(const Tensor& output, const Tensor& input, int root, const CallOptions& options = {},
               CallSite site = CallSite::here());
  Work barrier(const CallOptions& options = {}, CallSite site = CallSite::here());
  /// One of the calls above, chosen at run time. It ignores what its kind has no use for: `input`
  /// in place, `op` and `root`. An all_to_all has equal chunks. REQUIRES: no split.
  Work collective(CollectiveKind kind, const Tensor& output, const Tensor& input,
                  ReduceOp op = ReduceOp::sum, int root = 0, const CallOptions& options = {},
                  CallSite site = CallSite::here());

  /// The transfer starts when both sides have posted it and both streams are free.
  Work send(const Tensor& buffer, int peer, const CallOptions& options = {},
            CallSite site = CallSite::here());
  Work recv(const Tensor& buffer, int peer, const CallOptions& options = {},
            CallSite site = CallSite::here());
  /// Posts all at once, so that they wait for nothing of each other (ncclGroupStart/End).
  Work batch(std::span<const P2pOp> operations, const CallOptions& options = {},
             CallSite site = CallSite::here());

  /// Blocks until every member has called it. Members with equal `color` form a new communicator,
  /// ranked by `key`, then by their rank here. `name` must be equal on all members. `color` is 0 or
  /// more, or kNoColor: then the result is null.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key,
                                                            const std::string& name,
                                                            CallSite site = CallSite::here()) = 0;

  /// The same where the members are known: ranks here, this one among them; RankSpan::none() where
  /// it joins no group. Each group is named alike by all its members. Programs that form all their
  /// groups so can be recorded (backends/program). Throws ARG_RANGE if this rank is not a member.
  [[nodiscard]] virtual std::unique_ptr<Communicator> subgroup(const RankSpan& members,
                                                               const std::string& name,
                                                               CallSite site = CallSite::here());

  /// This member's end of messages with tags among the members (backends/tagged_messages.hpp).
  /// Throws UsageError (E0512) on a backend that has none: NCCL.
  [[nodiscard]] virtual std::unique_ptr<TaggedMessages> tagged_messages();

  // --- for backends and for what wraps a communicator
  /// Makes a call whose arguments have been checked; the call and its parts live until it returns.
  virtual Work post(const Call& call) = 0;
  /// Call site and caller of `action`, which a refused call reports beside its reason.
  [[nodiscard]] virtual Diagnosis diagnosis_of(const std::string& action, CallSite site) const;
};

}  // namespace shardsim
