#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/harness/check.hpp"

// Checks whose layouts, sizes, seeds and precisions are drawn. The library draws nothing itself:
// <shardsim/rapidcheck.hpp> does so with RapidCheck, and any other source of random values may.
namespace shardsim {

/// The part of a check that is drawn.
struct DrawnPoint {
  MeshShape layout;
  std::vector<Extent> extents;
  std::uint64_t seed = 1;  ///< Seed of the data.
  DType precision = DType::fp64;
};

/// A point, and simpler ones that may fail as well. One after the other is asked for, and tried,
/// until one fails; then its own simpler ones are.
struct DrawnTree {
  /// The next; nothing behind the last.
  using Next = std::function<std::optional<DrawnTree>()>;

  DrawnPoint point;
  std::function<Next()> simpler;
};

struct DrawnCheckOptions {
  int cases = 100;
  /// Whether the program is made for a point; empty: for all.
  std::function<bool(const DrawnPoint&)> accepts;
  /// The program's name in the test that a failure prints.
  std::string program = "program";
  /// The source of points, in words: "seed 4711".
  std::string source;
};

/// Checks `program` at each of so many points that `draw` gives, by `options` but for what is
/// drawn. A failure is made smaller: a simpler point that fails with the same code, then fewer
/// steps and decisions. Its report has the smallest check as a test to paste (CheckReport::test).
/// `draw` is asked for points 0, 1, ... until enough are accepted. Throws UsageError for options
/// without a meaning (E1213), or where ten times as many points are not enough (E1214).
[[nodiscard]] CheckReport check_drawn(const Program& program, const CheckOptions& options,
                                      const DrawnCheckOptions& drawn,
                                      const std::function<DrawnTree(int number)>& draw);

/// A test for Catch2 that makes this check and expects it to pass. Functions of the options have no
/// text: a comment names them.
[[nodiscard]] std::string test_text(const CheckOptions& options, const std::string& program,
                                    const Diagnosis& failure);

}  // namespace shardsim
