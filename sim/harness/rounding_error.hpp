#pragma once

#include <vector>

// Bounds what rounding may do to a sum, by the terms that are added and not by their sum. Where
// terms cancel, the sum says nothing about its errors. The oracle and the harness share this
// derivation: docs/decisions/0051-bounds.md.
namespace shardsim {

/// Bounds the sum of rounding errors whose limits add up to `all`, and whose squared limits add up
/// to `squares`. It never exceeds `all`; it exceeds 6 standard deviations with a probability of at
/// most 2 exp(-6^2 / 2) = 3e-8. Errors count as independent and uniform: their standard deviation
/// is their limit over sqrt(3). Source: Hoeffding (1963), and for rounding Higham and Mary, "A new
/// approach to probabilistic rounding error analysis" (2019).
[[nodiscard]] double most_of_errors(double all, double squares);

/// Draws the largest error of a tensor's elements, which is the quantity that is compared. Bounds
/// how far the next one may be from those drawn.
class DrawnErrors {
 public:
  /// Adds one draw: values, and the values without errors. Elements that are not finite count as no
  /// error.
  void add(const std::vector<double>& drawn, const std::vector<double>& exact);
  /// The mean of the draws and 9 of their standard deviations. For one element that is 6 standard
  /// deviations of its error (the size of a normal number has mean 0.8 and deviation 0.6). For many
  /// it is hardly above the draws, which vary little. 0 if nothing was drawn.
  [[nodiscard]] double bound() const;

 private:
  std::vector<double> largest_;
};

}  // namespace shardsim
