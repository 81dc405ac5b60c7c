#pragma once

#include <cstddef>
#include <vector>

#include "reports/run_detail.hpp"

// A row of too many bars, as pieces of equal columns of time.
namespace shardsim::svg {

/// Columns [begin, end), shown as `name`.
struct Piece {
  std::size_t name = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Splits [begin_s, end_s] into `columns` and gives each whole to one name, or to idle time, which
/// is left out. A name's missing share of a column is carried to the next, so it has as many
/// columns as it fills, to within one. Short bars between short gaps stay visible. Neighbours of
/// one name are one piece. REQUIRES: bars do not overlap, every bar lies within, and its name is
/// below `names`.
[[nodiscard]] std::vector<Piece> to_columns(const std::vector<GanttBar>& bars, std::size_t names,
                                            double begin_s, double end_s, std::size_t columns);

}  // namespace shardsim::svg
