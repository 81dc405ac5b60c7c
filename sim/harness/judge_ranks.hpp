#pragma once

#include <optional>

#include "sim/harness/comparison.hpp"

// What can be told from who shows which elements, and from ranks that show the same ones.
namespace shardsim {

/// Elements that nobody shows, or some more often than others.
[[nodiscard]] std::optional<Diagnosis> judge_cover(const ShownTensor& tensor,
                                                   const ShownTensor& reference);
/// Whether ranks show an element with different values, and what to say then.
[[nodiscard]] bool diverge(const ShownTensor& tensor, const Comparison& comparison);
[[nodiscard]] Diagnosis explain_divergence(const ShownTensor& tensor, const Comparison& comparison);

}  // namespace shardsim
