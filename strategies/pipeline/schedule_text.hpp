#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "strategies/pipeline/schedule.hpp"

// A schedule as a table, to be read by people, compared by tests and read back:
//
//   schedule 1f1b: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight
//   rank 0: 0F0 0F1 0B0 0F2 0B1 0B2
//   rank 1: 1F0 1B0 1F1 1B1 1F2 1B2
//
// A cell is stage, mnemonic, microbatch, as in PyTorch's pipelining; "0F4&" and the cell after it
// overlap (Action). Columns are padded to one
// width; they count cells and are no time axis (that is the picture of timeline.hpp).
namespace shardsim {

[[nodiscard]] std::string to_text(const PipelineSchedule& schedule);

/// `text` with blanks behind it, at least `width` wide.
[[nodiscard]] std::string padded(std::string text, std::size_t width);

/// The schedule that `text` shows; the inverse of to_text. Any amount of blanks may stand between
/// words. Reads also schedules that are wrong, as long as every cell is an action of a stage that
/// the rank has: what is wrong is for validate() to say. Throws UsageError with line and column.
[[nodiscard]] PipelineSchedule parse_schedule_text(std::string_view text);

}  // namespace shardsim
