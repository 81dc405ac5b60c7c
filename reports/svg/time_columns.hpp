#pragma once

#include <cstddef>
#include <vector>

#include "reports/run_detail.hpp"

// A row of more bars than can be seen, as pieces of equal columns of time.
namespace shardsim::svg {

/// Columns [begin, end), shown as `name`.
struct Piece {
  std::size_t name = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Splits [begin_s, end_s] into `columns` and gives each whole to one name, or to idleness, which
/// is left out. What a column does not get of its share is owed to it in the next, so that each
/// name has as many columns as it fills, to within one: short bars between short gaps stay visible
/// as what they are. Neighbours of one name are one piece. REQUIRES: bars do not overlap, every bar
/// lies within, and its name is below `names`.
[[nodiscard]] std::vector<Piece> to_columns(const std::vector<GanttBar>& bars, std::size_t names,
                                            double begin_s, double end_s, std::size_t columns);

}  // namespace shardsim::svg
