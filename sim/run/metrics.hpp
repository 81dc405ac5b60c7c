#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "reports/result.hpp"
#include "scenarios/machine_spec.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/device_memory.hpp"
#include "sim/run/run_record.hpp"
#include "sim/verify/verification.hpp"

// From counters to the result's metrics, checks and verdicts. Times are those of the last step;
// traffic is per step; memory is over the whole run.
namespace shardsim {

[[nodiscard]] std::vector<Metric> metrics_of(const Experiment& experiment, const FiberWorld& world,
                                             const DeviceMemory& memory, const RunRecord& record,
                                             const Verification* oracle);

/// The axis of the result that counts the traffic of a communicator of this name; "none" for the
/// world.
[[nodiscard]] std::string_view axis_of(const std::string& communicator);

/// All sent bytes are received, by communicator and along every ring.
[[nodiscard]] Check conservation_check(const FiberWorld& world);
[[nodiscard]] Check oracle_check(const Verification& oracle);

[[nodiscard]] std::vector<ExpectationResult> judge(const std::vector<Expectation>& expectations,
                                                   const Result& result);

/// Warnings about the effect of `faults` on numbers that are easily misread. `result` has the
/// metrics of the run.
[[nodiscard]] std::vector<std::string> fault_warnings(const FaultSpec& faults,
                                                      const Result& result);

}  // namespace shardsim
