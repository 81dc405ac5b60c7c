#pragma once

#include <cstdint>

#include "sim/kernel/dtype.hpp"

// Draws a program's rounding errors anew: random rounding (Vignes, "A stochastic arithmetic for
// reliable scientific computation", Mathematics and Computers in Simulation 35, 1993). For the
// oracle and the harness alone.
namespace shardsim {

/// A sum whose terms several ranks have.
enum class SumOver {
  tensor_ranks,   ///< Parts of a product.
  bias,           ///< Such a sum and a bias.
  query_shares,   ///< Gradients of keys and values, from the shares of a context.
  key_blocks,     ///< Attention over one block of a context after another.
  expert_slices,  ///< Parts of a product of an expert that several ranks share.
  expert_ranks,   ///< A token's experts, first on each rank, then over ranks.
};

/// Roundings of such sums beyond the one that a device makes. May be fractions.
struct SumRoundings {
  double tensor_ranks = 0.0;
  double bias = 0.0;
  double query_shares = 0.0;
  double key_blocks = 0.0;
  double expert_slices = 0.0;
  double expert_ranks = 0.0;

  [[nodiscard]] double of(SumOver sum) const;
  /// Whether ranks round what one device does not, but for blocks of keys.
  [[nodiscard]] bool any() const;
};

/// While it lives, elements that this thread stores in tensors of fp32, bf16 or fp16 are rounded up
/// or down at random. A number that the format has is stored as it is, and so is fp64. Equal
/// numbers (but for their sign) are rounded alike, as rounding to nearest does: copies stay copies.
/// Both ways are equally likely, however near the number is to one of them. It is near by luck, and
/// a program that adds in another order has other numbers.
class StochasticRounding {
 public:
  /// Mean square of a drawn error, over that of rounding to nearest (spacing^2 / 12). A number that
  /// lies f spacings above its lower neighbour moves by f or 1 - f: (f^2 + (1 - f)^2) / 2, on
  /// average 1 / 3. Seen from its nearest neighbour it moves by 0 or 1: 1 / 2.
  static constexpr double kVarianceFromExact = 4.0;
  static constexpr double kVarianceFromNearest = 6.0;

  /// `seed` selects the errors. `more` counts for the sums that a model marks
  /// (strategies/model/layer.hpp).
  explicit StochasticRounding(std::uint64_t seed, const SumRoundings& more = {});
  ~StochasticRounding();
  StochasticRounding(const StochasticRounding&) = delete;
  StochasticRounding& operator=(const StochasticRounding&) = delete;

  /// One of the two numbers of `dtype` around `value`.
  [[nodiscard]] double round(double value, DType dtype) const;
  /// Adds the errors of a shared sum's further roundings to `value`, a number of `dtype`. Each has
  /// the mean square of a drawn one, seen from nearest: every second time a spacing up or down.
  [[nodiscard]] double round_more(double value, DType dtype, SumOver sum) const;
  /// Rounding of this thread; null: to nearest.
  [[nodiscard]] static const StochasticRounding* active();

 private:
  std::uint64_t seed_;
  SumRoundings more_;
  const StochasticRounding* before_;
};

}  // namespace shardsim
