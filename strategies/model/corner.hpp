#pragma once

#include <cstddef>
#include <vector>

// ReLU has a corner at 0: an input near it lies on either side by its rounding alone, and its
// gradient is there or is not. The oracle must know who took which side.
namespace shardsim {

/// The sides of ReLU's inputs on this thread, in the order in which forward passes meet them.
class CornerSides {
 public:
  /// Takes notes only.
  CornerSides();
  /// Inputs are taken to lie above 0 where this says so. It must outlive the pass.
  explicit CornerSides(const std::vector<bool>& above);
  ~CornerSides();
  CornerSides(const CornerSides&) = delete;
  CornerSides& operator=(const CornerSides&) = delete;

  /// Whether the next input counts as above 0.
  [[nodiscard]] bool is_above(double input);
  [[nodiscard]] const std::vector<double>& inputs() const { return inputs_; }
  /// Of this thread; null: as the inputs are.
  [[nodiscard]] static CornerSides* active();

 private:
  const std::vector<bool>* above_ = nullptr;
  std::vector<double> inputs_;
  CornerSides* before_;
};

}  // namespace shardsim
