#pragma once

#include <cstddef>
#include <vector>

namespace shardsim {

/// Where the inputs of ReLU lie in the parts of a batch, and which of them might lie on the other
/// side of its corner with other rounding errors.
class Corners {
 public:
  struct Place {
    std::size_t part;
    std::size_t input;
  };

  void clear() { parts_.clear(); }
  [[nodiscard]] bool any() const;
  /// The inputs of the next part: the side that each is on counts from now on.
  void add(const std::vector<double>& inputs);
  /// The same inputs with drawn errors.
  void add_drawn(std::size_t part, const std::vector<double>& inputs);
  /// Of all inputs of a part: whether it counts as above 0. Stays valid until clear().
  [[nodiscard]] const std::vector<bool>& sides(std::size_t part) const {
    return parts_[part].above;
  }
  void flip(const Place& place);
  /// Inputs that are nearer to 0 than what errors may change: 4 times the most that was drawn.
  [[nodiscard]] std::vector<Place> open() const;

 private:
  struct Part {
    std::vector<double> inputs;
    std::vector<double> errors;
    std::vector<bool> above;
  };
  std::vector<Part> parts_;
};

}  // namespace shardsim
