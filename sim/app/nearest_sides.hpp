#pragma once

#include <cstddef>
#include <vector>

namespace shardsim {

/// Which of `changes` explain `difference` best, each taken whole or not at all, by least squares:
/// the one that explains most first, until none explains any more. In ascending order. All of equal
/// length.
[[nodiscard]] std::vector<std::size_t> explain(std::vector<double> difference,
                                               const std::vector<std::vector<double>>& changes);

}  // namespace shardsim
