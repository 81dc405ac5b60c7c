#pragma once

#include <vector>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// What a result with faults rests on; nothing without.
[[nodiscard]] std::vector<Assumption> fault_assumptions(const Scenario& scenario);

}  // namespace shardsim
