#pragma once

#include <vector>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// What communication is priced by.
[[nodiscard]] std::vector<Assumption> price_of_communication(const Scenario& scenario);

/// Every constant of that model with its source; the links' own are among the scenario's.
[[nodiscard]] std::vector<Assumption> constants_of_communication(const Scenario& scenario);

}  // namespace shardsim
