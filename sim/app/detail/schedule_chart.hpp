#pragma once

#include <string>
#include <vector>

#include "reports/run_detail.hpp"
#include "sim/app/detail/watched_run.hpp"

namespace shardsim {

/// The last step of the rank that each of `stages` names. Moments count from `origin`. Adds to
/// `notes` how coarse it is drawn.
[[nodiscard]] ScheduleChart schedule_chart(const WatchedRun& watched,
                                           const std::vector<StageTime>& stages, Time origin,
                                           std::vector<std::string>& notes);

}  // namespace shardsim
