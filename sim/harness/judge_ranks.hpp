#pragma once

#include <optional>

#include "sim/harness/comparison.hpp"

// Judgements from the ranks that show each element, and from several ranks that show the same one.
namespace shardsim {

/// Elements that nobody shows, or some more often than others.
[[nodiscard]] std::optional<Diagnosis> judge_cover(const ShownTensor& tensor,
                                                   const ShownTensor& reference);
/// Whether ranks show an element with different values, and the diagnosis of that.
[[nodiscard]] bool diverge(const ShownTensor& tensor, const Comparison& comparison);
[[nodiscard]] Diagnosis explain_divergence(const ShownTensor& tensor, const Comparison& comparison);

}  // namespace shardsim
