#pragma once

#include <cstdint>
#include <string>

#include "sim/harness/check.hpp"

// Correct programs of a few lines: ranks sum their samples, and then the ranks' sums. They differ
// in the way of summing, and in how much of the sum cancels.
namespace shardsim::test {

struct SummingProgram {
  enum class Way : std::uint8_t {
    all_reduce,      ///< One call.
    reduce_scatter,  ///< Each rank shows its shard of the sum.
    chain,           ///< A partial sum travels from rank to rank; the last one broadcasts it.
    gathered,        ///< Each rank gathers all parts, and adds them in double.
  };
  DType precision = DType::fp32;
  int ranks = 2;
  int steps = 1;
  std::int64_t elements = 1;
  std::int64_t samples = 4;
  Way way = Way::all_reduce;
  /// Ranks add their own samples one by one in the precision; else in double, rounded once.
  bool adds_in_precision = false;
  /// Every second sample takes away what the one before has added, except for this share of it; 1:
  /// it is drawn independently.
  double rest = 1.0;
  std::uint64_t seed = 1;
  /// With several ranks, their values are multiplied by this: a bug, unless it is 1.
  double scale = 1.0;

  /// "bf16, 4 ranks, ...".
  [[nodiscard]] std::string describe() const;
};

/// A correct program with 1, 2, 4, 16 or 256 elements. Call it within a property.
[[nodiscard]] SummingProgram draw_summing_program();

/// Runs the program, which shows the summed gradient and the updated weights.
[[nodiscard]] CheckReport check_summing(const SummingProgram& program);

}  // namespace shardsim::test
