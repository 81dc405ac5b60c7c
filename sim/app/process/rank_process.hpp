#pragma once

#include "strategies/training/parallel_plan.hpp"

#include "sim/app/process/meeting_point.hpp"
#include "sim/app/process/process_options.hpp"
#include "sim/app/run.hpp"

namespace shardsim {

/// The work of one rank of a real run: meets the others at the rendezvous, trains, compares, and
/// leaves its report there under `report_key`. Prints nothing: what goes wrong, here or elsewhere,
/// is known to who serves. Returns the exit code. Throws Error if it does not get as far as the
/// rendezvous. `last_resort`: see RendezvousClientOptions.
[[nodiscard]] ExitCode run_rank_process(const Scenario& scenario, const ParallelPlan& plan,
                                        const RunHooks& hooks, const ProcessOptions& options,
                                        const MeetingPoint& meeting,
                                        std::function<void()> last_resort = {});

[[nodiscard]] std::string report_key(int rank);

}  // namespace shardsim
