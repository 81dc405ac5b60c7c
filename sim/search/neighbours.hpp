#pragma once

#include <vector>

#include "sim/search/layout_space.hpp"

// Layouts that differ from another one in one decision. Bounds of experts are loose, so the layouts
// with the lowest bounds may all be poor; steps from the best one to a better neighbour are short.
namespace shardsim {

/// The candidates that differ from `candidate` by a factor of two in one degree, or in two whose
/// product stays, or in one other choice. Where the change leaves no such candidate (chunks that do
/// not divide the layers), the nearest one stands for it. Each once, without `candidate`.
[[nodiscard]] std::vector<LayoutPlace> neighbours_of(const LayoutSpace& space,
                                                     const Candidate& candidate);

}  // namespace shardsim
