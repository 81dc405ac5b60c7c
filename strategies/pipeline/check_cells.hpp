#pragma once

#include <string>
#include <vector>

#include "strategies/pipeline/validate.hpp"

// Private to strategies/pipeline: the checks of validate() that look at one row alone.
namespace shardsim {

/// The number of a cell as messages say it: its index or, of a schedule from a file, that of its
/// line. `cell` may be the row's length.
[[nodiscard]] int cell_number(const PipelineSchedule& schedule, int rank, int cell);

[[nodiscard]] std::vector<ScheduleProblem> check_cells(const PipelineSchedule& schedule);

}  // namespace shardsim
