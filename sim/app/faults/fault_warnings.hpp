#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// What the faults of a scenario make of its numbers, where these are easily taken for more than
/// they are: `result` has the metrics of the run.
[[nodiscard]] std::vector<std::string> fault_warnings(const Scenario& scenario,
                                                      const Result& result);

}  // namespace shardsim
