#pragma once

#include "scenarios/scenario.hpp"
#include "sim/app/command_run.hpp"

// Where records of decisions are read and written. What cannot end well is refused before the run,
// which may take long.
namespace shardsim {

/// Throws UsageError: E0912 for an option without a name, E0901 for a record that cannot be
/// written, E0910 for one that would replace what the run reads, or collide with what it writes.
void check_record_paths(const RunArguments& arguments, const Scenario& scenario);

}  // namespace shardsim
