#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

#include "tests/verdicts/seen_calls.hpp"

// Bugs that can be planted in any scenario that makes the calls they bend.
namespace shardsim::test {

/// A run of a scenario with the bug.
struct PlantedBug {
  std::string name;  ///< In the table.
  int steps = 1;     ///< It takes so many to show.
  std::function<Result(const Scenario&)> run;
};

inline constexpr const char* kDroppedRest = "the rest of 8 elements of a bucket is not reduced";
inline constexpr const char* kShiftedMask = "a mask is off by one in blocks of other ranks";

/// All that concern a scenario with these calls.
[[nodiscard]] std::vector<PlantedBug> bugs_of(const SeenCalls& calls);

}  // namespace shardsim::test
