#pragma once

#include <cstddef>
#include <vector>

// ReLU has a corner at 0. Rounding alone decides the side of an input near it, and thereby whether
// its gradient exists. The oracle must know which rank took which side.
namespace shardsim {

/// The sides of this thread's ReLU inputs, in the order of forward passes.
class CornerSides {
 public:
  /// Only notes the inputs.
  CornerSides();
  /// Inputs count as above 0 where `above` says so. It must outlive the pass.
  explicit CornerSides(const std::vector<bool>& above);
  ~CornerSides();
  CornerSides(const CornerSides&) = delete;
  CornerSides& operator=(const CornerSides&) = delete;

  /// Whether the next input counts as above 0.
  [[nodiscard]] bool is_above(double input);
  [[nodiscard]] const std::vector<double>& inputs() const { return inputs_; }
  /// The instance active in this thread; null: the inputs decide.
  [[nodiscard]] static CornerSides* active();

 private:
  const std::vector<bool>* above_ = nullptr;
  std::vector<double> inputs_;
  CornerSides* before_;
};

}  // namespace shardsim
