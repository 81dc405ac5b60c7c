#pragma once

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
  /// Both must outlive it. `model`: whose parameters they are.
  Coverage(const Expectations& expected, const Model& model) : expected_(expected), model_(model) {}

  void count(std::int64_t step, const StatePiece& piece);
  /// Each element of a kind is to be held by equally many ranks, one at least; else says which is
  /// not. To be asked when all were counted.
  [[nodiscard]] std::optional<std::string> find_gap() const;

 private:
  [[nodiscard]] std::optional<std::string> find_gap(std::int64_t step, const std::string& kind,
                                                    const ReferenceTensors& tensors) const;

  const Expectations& expected_;
  const Model& model_;
  // By step, kind and parameter: of each element, how many ranks have shown it.
  std::map<std::tuple<std::int64_t, std::string, int>, std::vector<int>> holders_;
};

}  // namespace shardsim
