#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/kernel/dtype.hpp"

#include "strategies/model/weight_gradient.hpp"

#include "sim/verify/reference.hpp"
#include "sim/verify/whole_parameters.hpp"

#include "sim/harness/rounding_error.hpp"

// The distance that rounding alone may cause between two runs of the same training.
namespace shardsim {

/// max |x|.
[[nodiscard]] double largest(const ReferenceTensors& tensors);

/// max(a, b), but a NaN in `a` stays: anything compared with NaN is wrong, and max() would hide it.
[[nodiscard]] double worse(double a, double b);

/// difference / of; if `of` is 0, it is 0 for no difference, else huge.
[[nodiscard]] double relative(double difference, double of);

/// The distance of each tensor of `rounded` from `exact`, relative to the latter's largest element.
[[nodiscard]] std::vector<double> noise_of(const ReferenceTensors& rounded,
                                           const ReferenceTensors& exact);

/// The drawn effect of rounding activations on gradients and loss.
class ActivationNoise {
 public:
  /// For the gradients of the last computation, if ranks share samples. REQUIRES:
  /// Batches::in_parts.
  void draw(ReferenceTraining& reference, std::size_t num_parameters);
  /// For ranks that compute whole samples: no effect.
  void clear(std::size_t num_parameters);

  /// The largest difference that the ranks' roundings and the reference's own may cause: one
  /// element of a gradient, the root mean square of its elements, the loss.
  [[nodiscard]] double of_element(std::size_t parameter) const;
  [[nodiscard]] double of_mean_square(std::size_t parameter) const;
  [[nodiscard]] double of_loss() const;

 private:
  std::vector<DrawnErrors> largest_;
  std::vector<DrawnErrors> mean_squares_;
  DrawnErrors loss_;
  double share_ = 1.0;  // The errors of both runs, over drawn ones.
};

/// 0 for no values.
[[nodiscard]] double median(std::vector<double> values);

/// The unit roundoff of values of a kind ("gradient", "parameter", "exp_avg", ...), as computed and
/// kept. A gradient comes from weights, so the larger of both counts.
[[nodiscard]] double unit_roundoff_of(const SyncPlan& sync, std::string_view kind);

// --- Sums --------------------------------------------------------------------------------------

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
  void add_sum(Runtime& runtime, const WeightGradient& work);
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
