#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Schedules as PyTorch's pipelining writes and reads them: a line for each rank, cells separated by
// commas, in which stand stage, mnemonic and microbatch; an empty cell is an idle moment:
//
//   0F0,0F1,,0B0,(0F2;0B1)OVERLAP_F_B,0B2
//
// The file says neither its shape nor where stages are: both are found from its cells.
namespace shardsim {

/// One line per rank, each ended by "\n", without empty cells. A lowered schedule shows its sends
/// and receives.
[[nodiscard]] std::string to_csv(const PipelineSchedule& schedule);

/// A problem of a text, and its place: at most one per cell.
struct CsvProblem {
  int line = 0;            ///< From 1.
  int cell = 0;            ///< From 1; 0: the line.
  std::size_t offset = 0;  ///< Start of the cell in the text.
  std::size_t length = 0;
  std::string what;
  std::string fix;
};

struct ScheduleCsv {
  /// Its source names the cells, and sends in flight are fewest_sends(). Whether it trains anything
  /// is for validate() to say.
  PipelineSchedule schedule;
  /// UNSHARD, RESHARD and REDUCE_GRAD cells, which are left out: when parameters are gathered and
  /// gradients reduced is said elsewhere (SyncPlan).
  int num_left_out = 0;
  std::vector<CsvProblem> problems;  ///< If there are any, `schedule` has no meaning.
};

/// Reads any order of F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B and OVERLAP_F_B. Problems: a cell
/// that is no action; a rank without any; a stage on two ranks, or on none; stages that lie neither
/// around the ranks nor down and up (Placement); more than a schedule may have.
[[nodiscard]] ScheduleCsv parse_schedule_csv(std::string_view text, const std::string& file);

}  // namespace shardsim
