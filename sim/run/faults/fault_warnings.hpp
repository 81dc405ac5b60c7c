#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"
#include "scenarios/fault_spec.hpp"

namespace shardsim {

/// Warnings about the effect of `faults` on numbers that are easily misread. `result` has the
/// metrics of the run.
[[nodiscard]] std::vector<std::string> fault_warnings(const FaultSpec& faults,
                                                      const Result& result);

}  // namespace shardsim
