#pragma once

#include <string>
#include <vector>

#include "sim/kernel/trace.hpp"

// The trace in the older JSON format that chrome://tracing and many scripts read ("Trace Event
// Format", Google, 2016). Twice the size of the Perfetto file; the same content.
namespace shardsim {

/// Processes, threads, names, rounding and REQUIRES as in `to_perfetto`. A slice is a pair of begin
/// and end events. Readers turn durations with decimals into whole nanoseconds, and only equal
/// texts surely become equal times. One event a line.
[[nodiscard]] std::string to_chrome_json(const std::vector<RankTrace>& traces);

}  // namespace shardsim
