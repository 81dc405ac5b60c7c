#pragma once

#include <optional>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/shown_state.hpp"

// Holds what ranks have shown against what the reference has, and names the difference by what
// mostly causes it (docs/decisions/0039-harness.md has the table).
namespace shardsim {

struct JudgeOptions {
  /// Of an element's error, relative to the largest element of the tensor, or to 1e-6 of the
  /// largest of its kind.
  double tolerance = 1e-9;
  /// Below fp64: the reference in fp64. Then errors are distances from it, and what is allowed is
  /// ten times the reference's own.
  const ShownState* exact = nullptr;
  DType precision = DType::fp64;
};

/// The root difference of the first step that has one; nothing if there is none.
[[nodiscard]] std::optional<Diagnosis> judge(const ShownState& shown, const ShownState& reference,
                                             const JudgeOptions& options);

}  // namespace shardsim
