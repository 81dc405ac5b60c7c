#pragma once

#include <cstddef>
#include <vector>

namespace shardsim {

/// The inputs of ReLU in the parts of a batch. Other rounding errors might move some of them to the
/// other side of its corner.
class Corners {
 public:
  struct Place {
    std::size_t part;
    std::size_t input;
  };

  void clear() { parts_.clear(); }
  [[nodiscard]] bool any() const;
  /// Adds the inputs of the next part and fixes the side of each.
  void add(const std::vector<double>& inputs);
  /// The same inputs with drawn errors.
  void add_drawn(std::size_t part, const std::vector<double>& inputs);
  /// For each input of a part, whether it counts as above 0. Stays valid until clear().
  [[nodiscard]] const std::vector<bool>& sides(std::size_t part) const {
    return parts_[part].above;
  }
  void flip(const Place& place);
  /// Inputs that lie nearer to 0 than errors may move them: 4 times the largest drawn error.
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
