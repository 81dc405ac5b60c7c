#pragma once

#include <cstddef>
#include <vector>

namespace shardsim {

/// Selects the `changes` that explain `difference` best by least squares; each counts whole or not
/// at all. Takes the best one first, until none helps. Returns indices in ascending order. All
/// vectors have equal length.
[[nodiscard]] std::vector<std::size_t> explain(std::vector<double> difference,
                                               const std::vector<std::vector<double>>& changes);

}  // namespace shardsim
