#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/harness/corpus/corpus_row.hpp"

// Numbers that differ in ways that a report can name: a factor, a sign, a shift, an old step,
// swapped halves, a contribution that is not there. The bugs stand at the places of one training
// step, and each row has the sentences that are true of its bug.
namespace shardsim::corpus {

enum class NumberBug : std::uint8_t {
  output_scaled,
  output_negated,
  output_shifted,
  output_shifted_on_last,
  output_stale,
  output_halves,
  output_not_reduced,
  loss_times_ranks,
  loss_over_ranks,
  loss_doubled,
  loss_negated,
  loss_stale,
  loss_local,
  loss_mean_of_means,
  loss_doubled_uneven,
  loss_without_last,
  norm_local,
  norm_squared,
  norm_of_copies,
  norm_stale,
  norm_averaged,
  norm_without_bias,
  norm_without_last,
  gradient_times_ranks,
  gradient_negated,
  gradient_bias_doubled,
  gradient_shifted,
  gradient_stale,
  gradient_halves,
  gradient_without_last,
  gradient_last_alone,
  gradient_doubled_uneven,
  gradient_mean_of_means,
  gradient_last_twice,
  parameter_stale,
  parameter_update_negated,
  parameter_shifted,
  parameter_halves,
  parameter_update_scaled,
  parameter_part_stale,
};

/// Trains a linear model by full batches, and shows all that it computes.
void train_linear(RankContext& context, const Plant& plant, NumberBug bug);
/// Its source file, as call sites have it.
[[nodiscard]] std::string file_of_training();

struct HintRow {
  Row row;
  /// A right report has one of these; a hint without any of them points elsewhere. "{last}" is the
  /// last rank.
  std::vector<std::string> truths;
};
/// `row.bug` says the place and what happens there.
[[nodiscard]] std::vector<HintRow> hint_rows();

/// "right", "none" or "wrong", for a run of so many ranks.
[[nodiscard]] std::string judge_hint(const HintRow& row, int ranks, const Diagnosis& found);

}  // namespace shardsim::corpus
