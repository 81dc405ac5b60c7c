#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/shown_state.hpp"

// Compares a shown tensor with its reference, and the ranks that show its elements.
namespace shardsim {

/// A tensor and its reference.
class Comparison {
 public:
  /// Elements may differ by `bound`. `reference` has as many.
  Comparison(const ShownTensor& tensor, const ShownTensor& reference, double bound)
      : tensor_(tensor), wanted_(reference.values()), bound_(bound) {}

  [[nodiscard]] const std::vector<double>& wanted() const { return wanted_; }
  [[nodiscard]] bool close(double a, double b) const;
  [[nodiscard]] bool right(const ShownState::Piece& piece) const;
  [[nodiscard]] bool all_right() const;
  /// Number of the first element of `piece` that differs; its size if none does.
  [[nodiscard]] std::int64_t first_wrong(const ShownState::Piece& piece) const;
  /// The ranks whose part differs, and where the first one does.
  [[nodiscard]] DiagnosisSide wrong_side() const;
  /// The largest error of all, in bounds.
  [[nodiscard]] double largest_excess() const;
  /// Whether the ranks' values add up to the reference.
  [[nodiscard]] bool are_parts_of_sum() const;

 private:
  const ShownTensor& tensor_;
  std::vector<double> wanted_;
  double bound_;
};

/// One rank, its action and the place of its call.
[[nodiscard]] DiagnosisSide side_of(const ShownState::Piece& piece, std::string action);
/// A diagnosis of the ranks that have shown `tensor`: "gradient of w, step 0 <what>".
[[nodiscard]] Diagnosis begin_diagnosis(const char* code, const ShownTensor& tensor,
                                        const std::string& what);

/// Elements that nobody shows, or some more often than others.
[[nodiscard]] std::optional<Diagnosis> judge_cover(const ShownTensor& tensor,
                                                   const ShownTensor& reference);
/// Whether ranks show an element with different values, and the diagnosis of that.
[[nodiscard]] bool diverge(const ShownTensor& tensor, const Comparison& comparison);
[[nodiscard]] Diagnosis explain_divergence(const ShownTensor& tensor, const Comparison& comparison);

// --- Judging -----------------------------------------------------------------------------------
// Names a difference by its usual cause (docs/decisions/0039-harness.md has the table).

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
