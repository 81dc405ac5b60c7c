#pragma once

#include <cstdint>
#include <vector>

namespace shardsim {

/// Factors of a quantized tensor's elements that do not lie among its bytes.
struct QuantizedScales {
  /// Rows that were quantized as a tensor of their own.
  struct Run {
    std::int64_t rows;
    float scale;
  };
  float of_all = 1.0F;
  std::vector<Run> runs = {};  ///< All rows, in order. Empty: of_all is the factor.
};

}  // namespace shardsim
