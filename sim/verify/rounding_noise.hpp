#pragma once

#include <string_view>
#include <vector>

#include "sim/kernel/dtype.hpp"

#include "sim/verify/reference.hpp"

#include "sim/harness/rounding_error.hpp"

// The distance that rounding alone may cause between two runs of the same training.
namespace shardsim {

/// A tensor counts as at least this share of the largest value of its kind: below it, errors are
/// absolute.
inline constexpr double kNoiseFloor = 1e-6;

/// max |x|.
[[nodiscard]] double largest(const std::vector<double>& values);
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
};

/// 0 for no values.
[[nodiscard]] double median(std::vector<double> values);

/// The unit roundoff of values of a kind ("gradient", "parameter", "exp_avg", ...), as computed and
/// kept. A gradient comes from weights, so the larger of both counts.
[[nodiscard]] double unit_roundoff_of(const SyncPlan& sync, std::string_view kind);

}  // namespace shardsim
