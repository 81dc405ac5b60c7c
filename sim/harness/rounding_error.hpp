#pragma once

#include <vector>

// Bounds the rounding error of a sum by its terms, and not by the sum. If terms cancel, the sum
// says nothing about its errors. The oracle and the harness share this derivation:
// docs/decisions/0051-bounds.md.
namespace shardsim {

/// Bounds the sum of rounding errors whose limits add up to `all`, and whose squared limits add up
/// to `squares`. It never exceeds `all`; it exceeds 6 standard deviations with a probability of at
/// most 2 exp(-6^2 / 2) = 3e-8. Errors count as independent and uniform: their standard deviation
/// is their limit over sqrt(3). Source: Hoeffding (1963), and for rounding Higham and Mary, "A new
/// approach to probabilistic rounding error analysis" (2019).
[[nodiscard]] double most_of_errors(double all, double squares);

/// The same for the root mean square of many sums' errors, given the variances of these errors. It
/// is exceeded with a probability of at most exp(-18) = 2e-8. The formula
/// sum v + 2 sqrt(18 sum v^2) + 36 max v bounds the sum of squares of independent normal numbers
/// (Laurent and Massart, "Adaptive estimation of a quadratic functional by model selection", 2000,
/// lemma 1), and that of numbers with lighter tails.
[[nodiscard]] double most_of_mean_square(const std::vector<double>& variances);

/// A tensor counts as at least this share of the largest value of its kind: below it, errors are
/// absolute.
inline constexpr double kNoiseFloor = 1e-6;
/// max |x|.
[[nodiscard]] double largest(const std::vector<double>& values);
/// The scale of relative errors: the tensor's largest value, or the floor of its kind.
[[nodiscard]] double scale_of(const std::vector<double>& values, double largest_of_kind);

/// The compared error of a tensor: that of one element, or that of all elements together. Elements
/// that are not finite count as no error. Equal lengths.
[[nodiscard]] double largest_error(const std::vector<double>& values,
                                   const std::vector<double>& exact);
[[nodiscard]] double root_mean_square_error(const std::vector<double>& values,
                                            const std::vector<double>& exact);

/// Bounds how far the next error may be from those drawn.
class DrawnErrors {
 public:
  /// Adds one draw, by largest_error() or root_mean_square_error().
  void add(double error) { errors_.push_back(error); }
  /// The mean of the draws and 9 of their standard deviations. For one element that is 6 standard
  /// deviations of its error (the size of a normal number has mean 0.8 and deviation 0.6). For many
  /// it is hardly above the draws, which vary little. 0 if nothing was drawn.
  [[nodiscard]] double bound() const;

 private:
  std::vector<double> errors_;
};

}  // namespace shardsim
