#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strategies/gradient_sync/whole_state.hpp"

#include "sim/app/state/safetensors.hpp"

namespace shardsim {

/// Puts whole tensors together from what ranks show of them, in the dtype in which they have them.
/// Of an element that several ranks show, that of the lowest rank counts.
class GatheredTensors {
 public:
  /// `shape`: of the whole tensor.
  void add(const std::string& name, const Shape& shape, int rank, const StatePiece& piece);
  /// A tensor that is whole as it is.
  void add_whole(const std::string& name, const Tensor& values);

  /// Those of which every element was shown; by name.
  [[nodiscard]] std::vector<NamedTensor> whole() const;
  /// The names of the others.
  [[nodiscard]] std::vector<std::string> incomplete() const;

 private:
  struct Gathered {
    Tensor values;
    std::vector<int> ranks;  // Of each element, who has shown it; kNobody.

    [[nodiscard]] bool is_whole() const;
  };
  std::map<std::string, Gathered> tensors_;
};

}  // namespace shardsim
