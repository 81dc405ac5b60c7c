#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"
#include "scenarios/fault_spec.hpp"

namespace shardsim {

/// What `faults` make of its numbers, where these are easily taken for more than
/// they are: `result` has the metrics of the run.
[[nodiscard]] std::vector<std::string> fault_warnings(const FaultSpec& faults,
                                                      const Result& result);

}  // namespace shardsim
