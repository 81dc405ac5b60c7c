#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/router_options.hpp"

// Which experts a token goes to, from one score for each.
namespace shardsim {

/// The `count` experts with the largest scores, the largest first, of equals the first expert. With
/// groups: of the experts in the best groups alone, also where scores are negative. REQUIRES: the
/// groups divide the scores, and those chosen have `count` experts.
[[nodiscard]] std::vector<int> choose_experts(const RouterOptions& options,
                                              const std::vector<double>& scores,
                                              std::int64_t count);

}  // namespace shardsim
