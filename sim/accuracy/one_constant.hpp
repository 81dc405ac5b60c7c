#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/accuracy/validated_table.hpp"

// A simulator must beat a formula with one constant. In it a step takes its FLOPs, recomputation
// counted, at a share c of the peak of its products, and (p - 1) / (v m) more for a pipeline of p
// ranks, v chunks and m microbatches. c is not a table's own: for each generation of GPUs it is the
// median of the other tables' medians.
namespace shardsim {

struct OneConstantFigures {
  struct Constant {
    std::string generation;  ///< "ampere".
    double share = 0.0;      ///< The part of the peak.
    std::size_t tables = 0;  ///< It is the median of so many.
  };
  std::vector<Constant> constants;  ///< One for each generation of the table's rows that has any.
  std::size_t rows = 0;             ///< Those with such a constant.
  double formula = 0.0;             ///< The formula's mean absolute error on them,
  double own = 0.0;                 ///< and that of the predictions.
};

/// On the headline's step times of tables[which]. None if no other table has its GPUs.
[[nodiscard]] std::optional<OneConstantFigures> one_constant_figures(
    std::span<const ValidatedTable> tables, std::size_t which);

}  // namespace shardsim
