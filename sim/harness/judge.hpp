#pragma once

#include <functional>
#include <optional>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/shown_state.hpp"

// Compares the tensors that ranks have shown with the reference's, and names a difference by its
// usual cause (docs/decisions/0039-harness.md has the table).
namespace shardsim {

struct JudgeOptions {
  /// Bound on an element's error, relative to the largest element of the tensor, or to 1e-6 of the
  /// largest of its kind.
  double tolerance = 1e-9;
  /// Below fp64: the reference in fp64. Errors are then distances from it. Ten times the
  /// reference's own error is allowed ...
  const ShownState* exact = nullptr;
  DType precision = DType::fp64;
  /// ... and a larger error up to this tensor's noise (ProgramNoise::of), which takes more runs.
  std::function<double(const ShownTensor&)> noise = {};
};

/// The root difference of the first step that has one; nothing if there is none.
[[nodiscard]] std::optional<Diagnosis> judge(const ShownState& shown, const ShownState& reference,
                                             const JudgeOptions& options);

}  // namespace shardsim
