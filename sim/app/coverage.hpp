#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/app/expectations.hpp"

namespace shardsim {

/// Counts who shows which element of what is expected: shards must cover every tensor, and must not
/// overlap.
class Coverage {
 public:
  /// `numel`: elements of the whole tensor.
  void count(std::int64_t step, const StatePiece& piece, std::size_t numel);
  /// Each element of a kind is to be held by equally many ranks, one at least; else says which is
  /// not. To be asked when all were counted. `model`: whose parameters they are.
  [[nodiscard]] std::optional<std::string> find_gap(const Expectations& expected,
                                                    const Model& model) const;

 private:
  [[nodiscard]] std::optional<std::string> find_gap(std::int64_t step, const std::string& kind,
                                                    const ReferenceTensors& tensors,
                                                    const Model& model) const;

  // By step, kind and parameter: of each element, how many ranks have shown it.
  std::map<std::tuple<std::int64_t, std::string, int>, std::vector<int>> holders_;
};

}  // namespace shardsim
