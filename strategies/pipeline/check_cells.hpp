#pragma once

#include <string>
#include <vector>

#include "strategies/pipeline/validate.hpp"

// Private to strategies/pipeline: the checks of validate() that look at one row alone.
namespace shardsim {

/// "1F0": an action of `rank` as it stands in tables.
[[nodiscard]] std::string cell_text(const PipelineSchedule& schedule, int rank,
                                    const Action& action);

[[nodiscard]] std::vector<ScheduleProblem> check_cells(const PipelineSchedule& schedule);

}  // namespace shardsim
