#pragma once

#include "scenarios/reading.hpp"

// parallelism.schedule_file: a pipeline schedule that a scenario brings along.
namespace shardsim {

/// Reads and parses it if the schedule is "file": every cell that is no action is a problem at its
/// line and cell. REQUIRES: the fields are read; resolve_batch() comes later.
void resolve_schedule_file(Reading& r);

/// Its shape is that of the scenario's pipeline. REQUIRES: resolve_batch().
void check_schedule_file(Reading& r);

}  // namespace shardsim
