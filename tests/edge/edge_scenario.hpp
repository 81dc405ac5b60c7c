#pragma once

#include "scenarios/load.hpp"

#include "tests/drawn_scenario.hpp"

// Scenarios at the edge of validity. Each starts as a small scenario that is most likely valid. A
// few of its fields then get values just inside or outside their ranges, or one more or less than
// fits with the others.
namespace shardsim::test {

/// Limits the cost of runs; drawn numbers may ask for days.
inline constexpr LoadLimits kSmall = {.max_ranks = 64,
                                      .max_plan_ranks = 64,
                                      .max_host_memory_bytes = std::int64_t{64} << 20U,
                                      .max_operations = 20'000};

/// With or without real tensors, on its own machine or a preset's. It may read a schedule or a
/// popularity of experts from a file of this repository, by its absolute path; it writes no file.
/// Call it within a property, from the repository's root.
[[nodiscard]] DrawnScenario draw_edge_scenario();

/// Without data, on one or two nodes of a preset, priced as NCCL does. Most are valid.
[[nodiscard]] DrawnScenario draw_preset_plan();

}  // namespace shardsim::test
