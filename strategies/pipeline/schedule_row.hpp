#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// A row for each schedule says all there is to know before one is made. Code that treats schedules
// differently asks the row and never compares names. A question that no row answers yet is a new
// member here. The table stands in schedule_table.cpp.
namespace shardsim {

inline constexpr int kAnyNumChunks = std::numeric_limits<std::int16_t>::max();

/// How a schedule runs backward: B, or I and W apart, or both.
enum class BackwardCut : std::uint8_t { whole, split, both };

/// Microbatches that the first chunk of rank r holds at some moment, at least: one, as many as
/// there are ranks from r on, or all.
enum class InFlight : std::uint8_t { one, ranks_to_go, all };

/// A row whose members are as they stand here describes a single stage.
struct ScheduleRow {
  std::string_view name;
  std::string_view summary;  ///< One line, for lists and help.
  Placement placement = Placement::loop;
  int min_chunks = 1;  ///< V is in [min_chunks, max_chunks].
  int max_chunks = 1;
  std::string_view with_one_chunk = {};  ///< In words, what it then is; if it may run several.
  bool whole_rounds = false;             ///< Needs M % p == 0.
  BackwardCut backward = BackwardCut::whole;
  bool overlaps = false;  ///< Runs a forward and a backward in one block.
  /// It gains only where ranks share experts; then on a single stage, too.
  bool is_for_experts = false;
  InFlight in_flight = InFlight::one;
  bool is_default = false;    ///< Used if no schedule is given: one row for V = 1, one for more.
  bool was_measured = false;  ///< There are published measurements of runs with it.
  // Names elsewhere; empty: there it has none.
  std::string_view megatron = {};    ///< In the words of Megatron-LM's documentation.
  std::string_view torchtitan = {};  ///< A class of torch.distributed.pipelining.
  std::string_view deepspeed = {};   ///< A class of deepspeed.runtime.pipe.
  /// One of the two.
  std::vector<Action> (*actions_of_rank)(const PipelineShape& shape, int rank) = nullptr;
  std::vector<std::vector<Action>> (*actions_of_all)(const PipelineShape& shape) = nullptr;
  /// The fewest microbatches it runs; null: 1.
  int (*min_microbatches)(const PipelineShape& shape) = nullptr;
  /// Null: kTwoSends.
  int (*sends_in_flight)(const PipelineShape& shape) = nullptr;

  /// Whether a rank may run any number of chunks.
  [[nodiscard]] bool takes_chunks() const { return max_chunks == kAnyNumChunks; }
  [[nodiscard]] int least_microbatches(const PipelineShape& shape) const {
    return min_microbatches == nullptr ? 1 : min_microbatches(shape);
  }
  /// Given the number of microbatches and of ranks to the last one, the rank itself too.
  [[nodiscard]] std::int64_t least_in_flight(std::int64_t microbatches,
                                             std::int64_t ranks_to_go) const;
};

/// Throws UsageError E0751 if there is no such schedule.
[[nodiscard]] const ScheduleRow& schedule_row(std::string_view name);
/// For one chunk per rank, or for several.
[[nodiscard]] const ScheduleRow& default_schedule(bool several_chunks = false);

using NameElsewhere = std::string_view ScheduleRow::*;
/// The first that a framework has: `schedule_in(&ScheduleRow::megatron)`. REQUIRES: it has one.
[[nodiscard]] const ScheduleRow& schedule_in(NameElsewhere framework, bool several_chunks = false);
/// The row of that name there; null: none.
[[nodiscard]] const ScheduleRow* find_schedule(NameElsewhere framework, std::string_view name);

using ScheduleTrait = bool (*)(const ScheduleRow&);
/// "a, b or c": all schedules with a trait, each between two `quote`.
[[nodiscard]] std::string schedules_that(ScheduleTrait has, std::string_view before_last = " or ",
                                         std::string_view quote = "");
inline bool takes_chunks(const ScheduleRow& row) { return row.takes_chunks(); }
inline bool takes_chunks_of_any_batch(const ScheduleRow& row) {
  return row.takes_chunks() && !row.whole_rounds;
}
inline bool runs_blocks(const ScheduleRow& row) { return row.overlaps; }
inline bool goes_down_and_up(const ScheduleRow& row) { return row.placement == Placement::v; }
/// Runs any number of microbatches and holds as few as can be.
inline bool is_frugal(const ScheduleRow& row) {
  return row.in_flight == InFlight::ranks_to_go && row.min_microbatches == nullptr;
}

}  // namespace shardsim
