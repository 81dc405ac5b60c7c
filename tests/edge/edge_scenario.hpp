#pragma once

#include "tests/drawn_scenario.hpp"

// Scenarios at the edge of validity. Each starts as a small scenario that is most likely valid. A
// few of its fields then get values just inside or outside their ranges, or one more or less than
// fits with the others.
namespace shardsim::test {

/// With or without real tensors, on its own machine or a preset's. It names no existing file and
/// writes none. Call it within a property.
[[nodiscard]] DrawnScenario draw_edge_scenario();

/// Without data, on one or two nodes of a preset, priced as NCCL does. Most are valid.
[[nodiscard]] DrawnScenario draw_preset_plan();

}  // namespace shardsim::test
