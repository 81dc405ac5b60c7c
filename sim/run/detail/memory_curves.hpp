#pragma once

#include <string>
#include <vector>

#include "reports/run_detail.hpp"
#include "sim/run/detail/watched_run.hpp"

namespace shardsim {

/// Memory over time of `ranks`, one per stage. Moments count from `origin`. Adds a note to `notes`
/// if curves were thinned.
[[nodiscard]] std::vector<MemoryCurve> memory_curves(const WatchedRun& watched,
                                                     const std::vector<int>& ranks, Time origin,
                                                     std::vector<std::string>& notes);

}  // namespace shardsim
