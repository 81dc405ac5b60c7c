#pragma once

#include <cstdint>

#include "sim/kernel/dtype.hpp"

// What a program's rounding errors may do to its results is seen by drawing them anew: random
// rounding (Vignes, "A stochastic arithmetic for reliable scientific computation", Mathematics and
// Computers in Simulation 35, 1993). For the oracle and the harness alone.
namespace shardsim {

/// While it lives, elements that this thread stores in tensors of fp32, bf16 or fp16 are rounded up
/// or down at random; a number that the format has is stored as it is, and fp64 is as ever. Equal
/// numbers (but for their sign) are rounded alike, as nearest rounding does it: copies stay copies,
/// and what cancels exactly goes on cancelling.
/// Both ways are as likely, however near a number is to one of them: it is near by luck, and a
/// program that adds in another order has other numbers.
class StochasticRounding {
 public:
  /// Variances of a drawn error, in those of rounding to nearest (spacing^2 / 12): from the number
  /// itself, and from what rounding to nearest makes of it. A drawn error is f or 1 - f spacings
  /// where the number is f above its lower neighbour: (f^2 + (1 - f)^2) / 2, whose mean is 1 / 3.
  /// From the nearest neighbour it is 0 or a spacing: 1 / 2.
  static constexpr double kVarianceFromExact = 4.0;
  static constexpr double kVarianceFromNearest = 6.0;

  /// `seed`: which errors.
  explicit StochasticRounding(std::uint64_t seed);
  ~StochasticRounding();
  StochasticRounding(const StochasticRounding&) = delete;
  StochasticRounding& operator=(const StochasticRounding&) = delete;

  /// One of the two numbers of `dtype` around `value`.
  [[nodiscard]] double round(double value, DType dtype) const;
  /// Of this thread; null: to nearest.
  [[nodiscard]] static const StochasticRounding* active();

 private:
  std::uint64_t seed_;
  const StochasticRounding* before_;
};

}  // namespace shardsim
