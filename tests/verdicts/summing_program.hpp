#pragma once

#include <cstdint>
#include <string>

#include "sim/harness/check.hpp"

// Programs of a few lines that are right: ranks sum their samples, and then the ranks' sums. How
// they do it differs, and how much of the sum cancels.
namespace shardsim::test {

struct SummingProgram {
  enum class Way : std::uint8_t {
    all_reduce,      ///< One call.
    reduce_scatter,  ///< Each rank shows its shard of the sum.
    chain,           ///< A partial sum travels from rank to rank, and the last one broadcasts.
    gathered,        ///< Each rank gathers all parts, and adds them in double.
  };
  DType precision = DType::fp32;
  int ranks = 2;
  int steps = 1;
  std::int64_t elements = 1;
  std::int64_t samples = 4;
  Way way = Way::all_reduce;
  /// Ranks add their own samples in the precision, sample by sample; else in double, rounded once.
  bool adds_in_precision = false;
  /// Every second sample takes away what the one before has added, but for this share of it; 1: it
  /// is drawn for itself.
  double rest = 1.0;
  std::uint64_t seed = 1;
  /// What ranks have is multiplied by this where there is more than one: a bug, unless it is 1.
  double scale = 1.0;

  /// "bf16, 4 ranks, ...".
  [[nodiscard]] std::string describe() const;
};

/// Right, of 1, 2, 4, 16 or 256 elements. To be called within a property.
[[nodiscard]] SummingProgram draw_summing_program();

/// Shows the gradient that was summed, and the weights that it has updated.
[[nodiscard]] CheckReport check_summing(const SummingProgram& program);

}  // namespace shardsim::test
