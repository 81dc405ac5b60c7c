#pragma once

#include <string>
#include <vector>

#include "reports/run_detail.hpp"
#include "sim/run/detail/watched_run.hpp"

namespace shardsim {

/// The last step of the rank that `stages` names for each stage. Moments count from `origin`. Adds
/// the limit of detail to `notes`.
[[nodiscard]] ScheduleChart schedule_chart(const WatchedRun& watched,
                                           const std::vector<StageTime>& stages, Time origin,
                                           std::vector<std::string>& notes);

}  // namespace shardsim
