#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/weight_gradient.hpp"

#include "sim/verify/whole_parameters.hpp"

namespace shardsim {

/// How the additions to a gradient are divided.
struct SharedSum {
  std::int64_t microbatches = 1;
  std::int64_t ranks = 1;   ///< Ranks with different samples of each microbatch.
  std::int64_t shares = 1;  ///< Ranks that share the tokens of a sample.
  std::int64_t slices = 1;  ///< Contributions of fewer tokens that count apart within one part.
};

/// Bounds the rounding errors when ranks add up a gradient: each its microbatches, then all ranks.
/// Uses the known partial sums, as a running error analysis does (Wilkinson, 1986; Higham,
/// "Accuracy and stability of numerical algorithms", 3.3).
class SumErrors {
 public:
  /// The model must outlive it. `dtype`: in which gradients are added up.
  SumErrors(const Model& model, const SharedSum& shared, DType dtype);

  /// Adds a contribution of the current part of the batch. Its rows are cut into slices, since
  /// ranks may add as many. The rows of an expert count as random slices.
  void add(Runtime& runtime, const WeightGradient& work);
  /// Ends a part with its contribution. Parts come microbatch by microbatch, rank by rank.
  void end_part(const ReferenceTensors& contribution);
  struct Finished {
    ReferenceTensors most;       ///< The most that all roundings may change, in unit roundoffs.
    ReferenceTensors variances;  ///< Variance of the change: spacing^2 / 12 for each rounding.
  };
  /// For each element. Call it once.
  [[nodiscard]] Finished finish();

 private:
  // Counts `times` roundings of a sum of this size.
  void round(std::size_t parameter, std::size_t element, double size, double times = 1.0);
  void add_grouped(Runtime& runtime, const WeightGradient& work);
  [[nodiscard]] std::vector<double> gradient_of(Runtime& runtime, WeightGradient work) const;
  void add_terms(int parameter, const std::vector<double>& terms);

  const Model& model_;
  SharedSum shared_;
  DType dtype_;
  double smallest_;  // Normal number.
  std::int64_t num_parts_ = 0;
  ReferenceTensors terms_;    // Squares of the slices.
  ReferenceTensors all_;      // Sizes of the rounded sums, added up.
  ReferenceTensors squares_;  // Their squares.
  ReferenceTensors variances_;
  std::vector<ReferenceTensors> of_ranks_;
};

}  // namespace shardsim
