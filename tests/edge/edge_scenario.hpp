#pragma once

#include "tests/drawn_scenario.hpp"

// Scenarios at the edge of validity: a small one that most likely is valid, of which a few fields
// are set to what they may just be, to what they may just not be, and to one more or less than what
// fits with the others.
namespace shardsim::test {

/// With real tensors or none, on a machine of its own or a preset's. Names no file that is there,
/// writes none. To be called within a property.
[[nodiscard]] DrawnScenario draw_edge_scenario();

/// Without data, on one or two nodes of a preset, priced as NCCL does. Most are valid.
[[nodiscard]] DrawnScenario draw_preset_plan();

}  // namespace shardsim::test
