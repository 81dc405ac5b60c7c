#pragma once

#include "scenarios/scenario.hpp"
#include "sim/app/command_run.hpp"

namespace shardsim {

/// Refuses before a run what cannot be written after it. Throws UsageError: E0912 for an option
/// without a name, E0901 for a file that cannot be written, E0910 for one that would replace what
/// the run reads, or collide with what it writes.
void check_run_paths(const RunArguments& arguments, const Scenario& scenario);

}  // namespace shardsim
