#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/time.hpp"

#include "sim/hardware/compute_op.hpp"

#include "backends/call.hpp"
#include "backends/rank_span.hpp"

// The program of one rank of a run without data, as a value: all it computes, allocates, posts and
// waits for, in order (docs/decisions/0061-record-and-replay.md). It has no times, so that it holds
// on every machine. Ranks that do the same have equal programs: a group is known by the form in
// which it lies around the rank, a peer by its place in the group.
namespace shardsim {

/// A moment that somebody asks about later.
struct ProgramMark {
  enum class Kind : std::uint8_t { step_begins, compute_begins, compute_ends, decided, step_ends };
  Kind kind = Kind::step_begins;
  std::int64_t step = 0;
  bool skipped = false;  ///< For decided, as the next one.
  double next_scale = 1.0;

  friend auto operator<=>(const ProgramMark&, const ProgramMark&) = default;
};

struct ProgramAllocation {
  MemoryCategory category = MemoryCategory::params;
  bool on_host = false;
  std::int64_t bytes = 0;

  friend auto operator<=>(const ProgramAllocation&, const ProgramAllocation&) = default;
};

/// Work of which only its time is known, as other programs have recorded it: the host spends
/// `host`, then the device is busy for `device`, on whatever machine.
struct ProgramHole {
  const char* name = "";  ///< A text of the tables.
  Time device;
  Time host;

  friend auto operator<=>(const ProgramHole&, const ProgramHole&) = default;
};

/// Where operations belong in what was recorded. Nothing but reports depends on it.
struct ProgramPlace {
  enum class Phase : std::uint8_t { none, forward, recomputation, backward, optimizer };
  const char* module = "";  ///< Its path, a text of the tables; "" for what is in none.
  Phase phase = Phase::none;

  friend auto operator<=>(const ProgramPlace&, const ProgramPlace&) = default;
};

/// "forward"; "" for none.
[[nodiscard]] const char* name_of(ProgramPlace::Phase phase);
inline constexpr std::size_t kNumPhases = 5;

/// Runtime::tally.
struct ProgramTally {
  const char* name = "";  ///< A text of the tables.
  std::int64_t first = 0;
  std::vector<std::int64_t> amounts;

  friend auto operator<=>(const ProgramTally&, const ProgramTally&) = default;
};

/// A message of a send, a receive or a batch.
struct ProgramMessage {
  bool sends = false;
  int peer = 0;
  DType dtype = DType::fp32;
  std::int64_t count = 0;

  [[nodiscard]] std::int64_t bytes() const { return count * size_of(dtype); }
  friend auto operator<=>(const ProgramMessage&, const ProgramMessage&) = default;
};

/// One call. The record's site is that of the first call like it.
struct ProgramCall {
  int group = 0;  ///< The program's number of it.
  CallKind kind = CallKind::collective;
  CollectiveKind collective = collective::kBarrier;
  CallRecord record;             ///< Its texts are of the tables.
  std::uint64_t label_hash = 0;  ///< hash_label of the record's label.
  std::vector<std::int64_t> counts;
  std::vector<ElementRange> padding_at;
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> recv_counts;
  std::vector<ProgramMessage> messages;
};

/// A communicator of the rank. The first one is the world's, which has no parent.
struct ProgramGroup {
  int parent = -1;
  std::string name;
  RankSpan members;  ///< Ranks in the parent; none where this rank joins none of the groups.

  /// The members where `rank` has the program: groups of the world lie around the rank, groups of
  /// groups where their parent does.
  [[nodiscard]] RankSpan members_for(int rank) const {
    const bool is_around = parent == 0 && members.size > 0 && members.step > 0;
    return is_around ? members.around(rank) : members;
  }
};

struct ProgramStep {
  // As wide as the others, so that steps have no padding.
  enum class Kind : std::uint32_t {
    compute,      ///< An operation.
    hole,         ///< A time that is taken over as it was recorded.
    allocate,     ///< An allocation, which has `slot` until it is released.
    release,      ///< That of `slot`.
    follow,       ///< The next post comes behind the work in `slot`.
    post,         ///< A call, whose work has `slot` until it is waited for.
    wait,         ///< For that of `slot`.
    join,         ///< Forms a group, which all ranks of its parent do.
    synchronize,  ///< The host waits for the stream in use.
    tally,
    mark,
    use_stream,    ///< Computing, posts and waits are those of another stream from here on.
    record_event,  ///< All that the stream in use has to do so far.
    wait_event,    ///< The stream in use waits for that.
  };
  Kind kind = Kind::compute;
  /// For an operation or a hole, 1 + the row of its place; 0: it has none.
  std::uint32_t slot = 0;
  /// In the table of the kind: operations, holes, allocations, calls, tallies, marks. The number of
  /// a group, stream or event where that is meant.
  std::uint32_t row = 0;

  friend bool operator==(const ProgramStep&, const ProgramStep&) = default;
};

class ProgramTables;

struct RankProgram {
  int rank = 0;                                 ///< Whose it is.
  std::shared_ptr<const ProgramTables> tables;  ///< Shared with the other programs of a recording.
  std::vector<ProgramGroup> groups;             ///< In the order they are formed.
  std::vector<ProgramStep> steps;
  std::uint32_t num_works = 0;        ///< Slots of works,
  std::uint32_t num_allocations = 0;  ///< and of allocations.
  std::uint32_t num_streams = 1;      ///< It begins and ends on stream 0.
  std::uint32_t num_events = 0;

  [[nodiscard]] bool has_one_stream() const { return num_streams == 1 && num_events == 0; }
};

/// Whether two ranks do the same: equal steps, and groups of the same form around each.
/// REQUIRES: the same tables.
[[nodiscard]] bool same_program(const RankProgram& a, const RankProgram& b);

/// The step at which two programs differ first, as the end of a sentence; "" if they do not.
[[nodiscard]] std::string difference_of(const RankProgram& a, const RankProgram& b);

/// A step in words: "compute matmul fp32 ...", "wait 3".
[[nodiscard]] std::string describe(const RankProgram& program, const ProgramStep& step);

}  // namespace shardsim
