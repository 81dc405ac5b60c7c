#pragma once

#include <string_view>
#include <vector>

#include "sim/kernel/rounding.hpp"

#include "sim/app/reference.hpp"

#include "sim/harness/rounding_error.hpp"

// How far two runs of the same training may be apart because of rounding alone.
namespace shardsim {

/// A tensor counts as at least this part of the largest value of its kind: below it, errors are
/// absolute.
inline constexpr double kNoiseFloor = 1e-6;

/// max |x|.
[[nodiscard]] double largest(const std::vector<double>& values);
[[nodiscard]] double largest(const ReferenceTensors& tensors);

/// max(a, b), but a NaN in `a` stays: anything compared with NaN is wrong, and max() would hide it.
[[nodiscard]] double worse(double a, double b);

/// difference / of; where `of` is 0, 0 only for no difference, else huge.
[[nodiscard]] double relative(double difference, double of);

/// How far each tensor of `rounded` is from `exact`, relative to the largest element of the latter.
[[nodiscard]] std::vector<double> noise_of(const ReferenceTensors& rounded,
                                           const ReferenceTensors& exact);

/// The drawn effect of rounding activations on gradients and loss.
class ActivationNoise {
 public:
  /// For the gradients of the last computation, where ranks share samples. REQUIRES:
  /// Batches::in_parts.
  void draw(ReferenceTraining& reference, std::size_t num_parameters);
  /// Ranks compute whole samples: none.
  void clear(std::size_t num_parameters);

  /// The most by which the two may differ of the ranks' roundings and of the reference's own: one
  /// element of a gradient, the root mean square of its elements, the loss.
  [[nodiscard]] double of_element(std::size_t parameter) const;
  [[nodiscard]] double of_mean_square(std::size_t parameter) const;
  [[nodiscard]] double of_loss() const;

 private:
  std::vector<DrawnErrors> largest_;
  std::vector<DrawnErrors> mean_squares_;
  DrawnErrors loss_;
};

/// 0 of none.
[[nodiscard]] double median(std::vector<double> values);

/// Of what values of a kind ("gradient", "parameter", "exp_avg", ...) are computed and kept in. A
/// gradient comes from weights: the larger of both.
[[nodiscard]] double unit_roundoff_of(const SyncPlan& sync, std::string_view kind);

}  // namespace shardsim
