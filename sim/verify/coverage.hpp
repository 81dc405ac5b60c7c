#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/verify/expectations.hpp"

namespace shardsim {

/// Counts which ranks show each expected element: shards must cover every tensor, and must not
/// overlap.
class Coverage {
 public:
  /// `numel`: elements of the whole tensor.
  void count(std::int64_t step, const StatePiece& piece, std::size_t numel);
  /// Each element of a kind must be held by equally many ranks, one at least; else says which is
  /// not. It must be called after all pieces are counted. `model`: the owner of the parameters.
  [[nodiscard]] std::optional<std::string> find_gap(const Expectations& expected,
                                                    const Model& model) const;

 private:
  [[nodiscard]] std::optional<std::string> find_gap(std::int64_t step, const std::string& kind,
                                                    const ReferenceTensors& tensors,
                                                    const Model& model) const;

  // By step, kind and parameter: the number of ranks that have shown each element.
  std::map<std::tuple<std::int64_t, std::string, int>, std::vector<int>> holders_;
};

}  // namespace shardsim
