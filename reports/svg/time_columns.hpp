#pragma once

#include <cstddef>
#include <vector>

#include "reports/run_detail.hpp"

// A row of more bars than can be seen, as pieces of equal columns of time.
namespace shardsim::svg {

/// Columns [begin, end) of which `name` fills most.
struct Piece {
  std::size_t name = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Splits [begin_s, end_s] into `columns` and gives each to the name that fills the largest part of
/// it, the first of equals; columns that are idle for more than half are left out. Neighbours of
/// one name are one piece. REQUIRES: every bar lies within, and its name is below `names`.
[[nodiscard]] std::vector<Piece> to_columns(const std::vector<GanttBar>& bars, std::size_t names,
                                            double begin_s, double end_s, std::size_t columns);

}  // namespace shardsim::svg
