#pragma once

#include <vector>

// What rounding may do to a sum, from the terms that are added and not from what is left of them:
// where terms cancel, the sum says nothing about the errors in it. One derivation for the oracle
// and for the harness: docs/decisions/0051-bounds.md.
namespace shardsim {

/// How large the sum of rounding errors may be that are at most `all` in sum, and of which the
/// squares add up to `squares`: never more than `all`; and more than 6 standard deviations with a
/// probability of 2 exp(-6^2 / 2) = 3e-8. Errors are taken as independent and uniform, whose
/// standard deviation is a root of 3 less than their bound. Source: Hoeffding (1963), and for
/// rounding Higham and Mary, "A new approach to probabilistic rounding error analysis" (2019).
[[nodiscard]] double most_of_errors(double all, double squares);

/// What is compared is the largest error of a tensor's elements. So this is what is drawn, and how
/// far the next one may be from those drawn.
class DrawnErrors {
 public:
  /// One draw: values, and what they are without errors. Elements that are not finite count as no
  /// error.
  void add(const std::vector<double>& drawn, const std::vector<double>& exact);
  /// The mean of the draws and 9 of their standard deviations. Of one element that is 6 standard
  /// deviations of its error (the size of a normal number has mean 0.8 and deviation 0.6); of many,
  /// whose largest varies little, hardly more than was seen. 0 if nothing was drawn.
  [[nodiscard]] double bound() const;

 private:
  std::vector<double> largest_;
};

}  // namespace shardsim
