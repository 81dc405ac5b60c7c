#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strategies/gradient_sync/whole_state.hpp"

#include "sim/run/state/safetensors.hpp"

namespace shardsim {

/// Puts whole tensors together from the ranks' pieces, in the ranks' dtype. If several ranks show
/// an element, the value of the lowest rank counts.
class GatheredTensors {
 public:
  /// `shape`: the shape of the whole tensor.
  void add(const std::string& name, const Shape& shape, int rank, const StatePiece& piece);
  /// A tensor that is whole as it is.
  void add_whole(const std::string& name, const Tensor& values);

  /// The tensors whose elements were all shown, by name.
  [[nodiscard]] std::vector<NamedTensor> whole() const;
  /// The names of the others.
  [[nodiscard]] std::vector<std::string> incomplete() const;

 private:
  struct Gathered {
    Tensor values;
    std::vector<int> ranks;  // The rank that has shown each element; kNobody.

    [[nodiscard]] bool is_whole() const;
  };
  std::map<std::string, Gathered> tensors_;
};

}  // namespace shardsim
