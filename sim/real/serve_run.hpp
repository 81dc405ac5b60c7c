#pragma once

#include <iosfwd>

#include "sim/real/process_options.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// Runs an experiment on real processes and adds their measurements to the simulation's outcome.
///
/// Without a launcher around it, this process starts the ranks itself (`options.words` again, one
/// process per rank), serves their rendezvous, and leaves none behind. Started by a launcher, rank
/// 0 serves and reports; other ranks only run and have nothing to print.
///
/// The findings of the run (ranks that died, hung or called wrongly) are in the result with its
/// exit code, as in run_experiment. Throws Error if it cannot run at all. Flight records of a
/// failed run are written below `out_directory`, with a note on `err`.
struct ProcessOutcome {
  bool reports = true;
  RunOutcome outcome;  ///< For the process that reports.
  int exit_code = 0;   ///< For the others.
};
[[nodiscard]] ProcessOutcome run_on_processes(const Experiment& experiment, const RunHooks& hooks,
                                              const ProcessOptions& options,
                                              const std::string& out_directory, std::ostream& err);

}  // namespace shardsim
