#pragma once

#include "strategies/pipeline/schedule.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// The placement of stages on this scenario's pipeline ranks; `loop` if the schedule is not
/// resolved yet. REQUIRES: the schedule's name is known.
[[nodiscard]] inline Placement stage_placement_of(const Scenario& s) {
  if (s.own_schedule != nullptr) return s.own_schedule->placement;
  const std::string& name = s.parallelism.schedule;
  const bool is_named = !name.empty() && name != "none" && name != kScheduleFromFile;
  return is_named ? needs_of(name).placement : Placement::loop;
}

}  // namespace shardsim
