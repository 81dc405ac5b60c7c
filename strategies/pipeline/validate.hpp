#pragma once

#include <string>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Whether a schedule trains the model it says and comes to an end, and if not, why not and where.
namespace shardsim {

/// One thing that is wrong.
struct ScheduleProblem {
  int rank = 0;                    ///< Row.
  int cell = 0;                    ///< Index in the row; its length where the row lacks something.
  std::string what;                ///< "1B0 comes before 1F0 (cell 2)"
  std::vector<std::string> cycle;  ///< For a deadlock: who waits for whom, one link per line.
};

/// Everything that is wrong, empty if nothing is. Checks, each only if those before found nothing:
/// 1. the rows are those of the shape; every stage does each microbatch exactly once, with B or
/// else
///    with I and W; on each rank F comes before B or I, I before W, and a chunk after the chunk of
///    the same rank that feeds it; and if lowered, each tensor that leaves or enters the rank is
///    sent after it is made and received before it is needed, once;
/// 2. ranks do not wait for each other's results in a cycle;
/// 3. both ends of every edge name the same transfers in the same order;
/// 4. ranks do not wait in a cycle under the protocol of lower.hpp.
/// For a schedule that is not lowered, 3 and 4 are about lower(schedule), and a problem's cell is
/// the one that the send or receive serves.
[[nodiscard]] std::vector<ScheduleProblem> validate(const PipelineSchedule& schedule);

/// The problem, and the cells around it as a table with the cell itself in brackets.
[[nodiscard]] std::string explain(const PipelineSchedule& schedule, const ScheduleProblem& problem);

/// Throws CommunicationError (SCHEDULE_WRONG, SCHEDULE_DEADLOCK) about the first problem, if any.
void require_valid(const PipelineSchedule& schedule);

// Private to strategies/pipeline: the checks that look at one row alone.
[[nodiscard]] std::vector<ScheduleProblem> check_cells(const PipelineSchedule& schedule);

/// The number of a cell as messages say it: its index or, of a schedule from a file, that of its
/// line. `cell` may be the row's length.
[[nodiscard]] int cell_number(const PipelineSchedule& schedule, int rank, int cell);

}  // namespace shardsim
