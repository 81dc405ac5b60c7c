#pragma once

#include "tests/drawn_scenario.hpp"

namespace shardsim::test {

/// A plan of a drawn scenario, with as many microbatches as layers need to repeat, and with faults.
[[nodiscard]] DrawnScenario draw_faulty_plan();

}  // namespace shardsim::test
