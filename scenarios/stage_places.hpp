#pragma once

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// The row of parallelism.schedule; that of a single stage for "none", for a schedule from a file
/// and before the name is resolved. REQUIRES: the name is known.
[[nodiscard]] inline const ScheduleRow& schedule_row_of(std::string_view name) {
  static constexpr ScheduleRow kSingleStage;
  const bool is_named = !name.empty() && name != "none" && name != kScheduleFromFile;
  return is_named ? schedule_row(name) : kSingleStage;
}

/// The placement of stages on this scenario's pipeline ranks; `loop` if the schedule is not
/// resolved yet. REQUIRES: the schedule's name is known.
[[nodiscard]] inline Placement stage_placement_of(const Scenario& s) {
  if (s.own_schedule != nullptr) return s.own_schedule->placement;
  return schedule_row_of(s.parallelism.schedule).placement;
}

}  // namespace shardsim
