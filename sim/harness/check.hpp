#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/rank_context.hpp"
#include "sim/harness/schedule.hpp"

// One call proves a strategy right, for the layouts and schedules it was asked for, or says
// precisely how it is wrong.
namespace shardsim {

/// The choice of schedules.
enum class ExploreMode : std::uint8_t {
  none,  ///< One, with either kind of sends.
  /// Random priorities of ranks with few changes. One schedule finds a bug that needs d events in
  /// one order with a probability of at least 1 / (n k^(d - 1)), for n ranks and k choices. Source:
  /// Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs"
  /// (ASPLOS 2010).
  pct,
  /// All that differ in which messages open receives take, once with rendezvous sends throughout
  /// and once with buffered ones; for tiny programs. Source: Flanagan and Godefroid, "Dynamic
  /// partial-order reduction" (POPL 2005).
  dpor,
};

struct Exploration {
  ExploreMode mode = ExploreMode::pct;
  /// Most schedules for each number of ranks, seed and kind of sends. A program whose receives all
  /// name their senders has one visible schedule, and gets few.
  int schedules = 100;
  int depth = 2;           ///< pct: events whose order matters.
  std::uint64_t seed = 1;  ///< pct.
};

/// A reference that shares no mistake with the program: see trusted_reference.hpp.
struct TrustedReference {
  std::string words;  ///< Behind "compared with: ".
  /// Shows tensors on one rank, by the names of the program that is checked.
  Program program;
};

struct CheckOptions {
  /// Names the check in reports and replay tokens.
  std::string name = "program";
  std::vector<int> ranks = {1, 2, 3, 4};
  /// Layouts instead of ranks: each runs on as many ranks as it has (RankContext::layout).
  std::vector<MeshShape> layouts;
  std::vector<Extent> extents;  ///< Sizes of the data (RankContext::extent).
  int steps = 2;
  std::vector<std::uint64_t> seeds = {1};  ///< Seeds of the data.
  /// In fp64 results differ only by the order of sums. `tolerance` bounds this, relative to the
  /// largest element of the tensor or 1e-6 of the largest of its kind. Below fp64, noise is
  /// measured: the reference's own distance from fp64, times ten.
  DType precision = DType::fp64;
  double tolerance = 1e-9;
  /// The reference of the program, on one rank. Empty: the program itself.
  Program reference;
  /// Tensors that it shows are compared with it, on one rank as on many; others as without it. The
  /// program has to show all of them.
  std::optional<TrustedReference> trusted;
  Exploration explore;
  /// Payload bytes a rank sends in the whole run; empty: not checked (BYTES_DIFF).
  std::function<std::int64_t(int rank, int size)> bytes_sent;
  /// Most bytes that a rank may have in use at once; empty: not checked (MEMORY_OVER).
  std::function<std::int64_t(int rank, int size)> peak_bytes;
  /// Writes and reads of buffers that a communication still uses.
  bool watch_buffers = true;
  /// Run what this token says and nothing else. Empty: also asks the environment variable
  /// SHARDSIM_REPLAY, whose tokens of other names are ignored: name your checks.
  std::string replay;
  bool replay_force = false;  ///< Take a token of another build.
};

struct CheckReport {
  /// The one root report, if something is wrong; `replay` in it reproduces it.
  std::optional<Diagnosis> failure;
  /// Calls that are legal here and may hang or differ elsewhere (NCCL_UNSAFE).
  std::vector<Diagnosis> warnings;
  /// The token of the failing run.
  std::optional<ReplayToken> token;
  std::int64_t schedules = 0;  ///< Runs of the program.
  bool exhausted = false;      ///< dpor: all schedules with sends of one kind were run.
  /// pct: the bound on the probability that these schedules find a bug of this depth; for the
  /// check's largest program.
  double bound = 0.0;
  std::int64_t most_choices = 0;  ///< Most choices of one run.
  std::string summary;            ///< The proven statement; empty after a failure.
  /// The reference of the numbers, in words. A program on one rank as its own reference does not
  /// show the mistakes that it makes there, too.
  std::string compared_with;
  /// Drawn checks only: where the failure was drawn, and a test that makes this check alone, in
  /// C++, to paste.
  std::string drawn;
  std::string test;

  [[nodiscard]] bool passed() const { return !failure; }
  /// The failure, at most 40 lines, and the test if there is one; or the proven statement in one
  /// line.
  [[nodiscard]] std::string to_text() const;
};

/// Runs `program` on every number of ranks, with every seed and under every schedule asked for. It
/// compares the shown tensors with the reference, and stops at the first failure. Throws UsageError
/// for options without a meaning.
[[nodiscard]] CheckReport check(const Program& program, const CheckOptions& options = {});

/// A smaller run that ends with the same code: fewer ranks, then steps, then decisions.
struct Shrunk {
  ReplayToken token;
  Diagnosis failure;
  int runs = 0;
};
/// REQUIRES: a report of `check` with these arguments that failed. Throws UsageError (E1211) if the
/// reference failed, which has one rank.
[[nodiscard]] Shrunk shrink(const Program& program, const CheckOptions& options,
                            const CheckReport& report);

}  // namespace shardsim
