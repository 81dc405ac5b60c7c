#pragma once

#include "sim/command/command_run.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// Refuses, before a run, outputs that cannot be written after it. Throws UsageError: E0912 for an
/// option without a name, E0901 for a file that cannot be written. E0910 is for a file that would
/// replace an input of the run or collide with another output.
void check_run_paths(const RunArguments& arguments, const Experiment& experiment);

}  // namespace shardsim
