#pragma once

#include <cstdint>

#include "sim/kernel/dtype.hpp"

// What a program's rounding errors may do to its results is seen by drawing them anew: Monte Carlo
// arithmetic (Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic",
// UCLA CSD-970002, 1997). For the oracle and the harness alone.
namespace shardsim {

/// While it lives, elements that this thread stores in tensors of fp32, bf16 or fp16 are rounded up
/// or down at random, with the probabilities that keep the mean; a number that the format has is
/// stored as it is, and fp64 is as ever. Equal numbers (but for their sign) are rounded alike, as
/// nearest rounding does it: copies stay copies, and what cancels exactly goes on cancelling.
class StochasticRounding {
 public:
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
