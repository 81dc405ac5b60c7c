#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/training/train.hpp"

namespace shardsim {

/// All values that one rank shows of its training, step by step: gradients before the optimizer,
/// then parameters, optimizer state and the loss.
class StateImage final : public TrainingObserver {
 public:
  enum Kind : std::uint8_t { gradients, parameters, optimizer_state, loss };
  static constexpr std::size_t kNumKinds = 4;

  struct Piece {
    std::int64_t step = 0;
    Kind kind = gradients;
    std::string state;       ///< Name of the optimizer state; else empty.
    int parameter = 0;       ///< Index among the parameters of this rank.
    std::int64_t first = 0;  ///< Element of the parameter.
    std::vector<double> values;
    bool of_rank_alone = false;  ///< StateKind::rank_state: replicas hold others.
  };

  void gradients_ready(std::int64_t step, const GradientSync& sync) override;
  void step_ends(std::int64_t step, const GradientSync& sync, std::optional<double> loss) override;

  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  void keep(std::int64_t step, const GradientSync& sync, StateKind kind, Kind kept_as);

  std::vector<Piece> pieces_;
};

/// The difference between two images of the same rank.
struct ImageDifference {
  std::int64_t num_values = 0;
  std::int64_t num_different = 0;  ///< In any bit; NaN equals NaN.
  /// max|a-b| / max(max|b|, 1e-6 x max|b| over all tensors of the kind and step), by kind.
  std::array<double, StateImage::kNumKinds> max_rel_error{};
  std::string first;  ///< The first difference, with both values; empty: none.
};

/// `expected` is b. Images of unlike pieces differ in all values. `names`: the parameters'.
[[nodiscard]] ImageDifference compare_images(const StateImage& actual, const StateImage& expected,
                                             const std::vector<std::string>& names);

}  // namespace shardsim
