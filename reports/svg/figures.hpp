#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"

// The figures of a report that need no script: for paper, mail and readers that block scripts.
// Equal runs give equal bytes. Each is one SVG document, or empty if there is nothing to show.
namespace shardsim {

/// The time of the step by parts: for the rank that ends last, and for one rank of each stage.
[[nodiscard]] std::string to_svg_breakdown(const Result& result, const RunDetail& detail);

/// The last step as a Gantt chart. Where a page cannot show all bars, small pieces of time have the
/// colours of their work, in proportion.
[[nodiscard]] std::string to_svg_schedule(const RunDetail& detail);

/// Memory of the fullest rank of each stage at its peak, by category. `device_bytes`: memory of a
/// device, 0 if not known.
[[nodiscard]] std::string to_svg_memory(const RunDetail& detail, double device_bytes);

/// Memory through the step on the rank whose curve rises highest.
[[nodiscard]] std::string to_svg_memory_over_time(const RunDetail& detail, double device_bytes);

namespace svg {

// A row of a Gantt chart with too many bars, as pieces of equal columns of time.

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

}  // namespace svg

}  // namespace shardsim
