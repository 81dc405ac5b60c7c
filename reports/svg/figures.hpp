#pragma once

#include <string>

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

}  // namespace shardsim
