#pragma once

#include <compare>
#include <set>
#include <string>

#include "scenarios/scenario.hpp"

// The calls that the ranks of a run make, without their places: which bugs of communication concern
// a scenario follows from them.
namespace shardsim::test {

/// Indices are gathered beside the numbers that they are of, under the same label.
enum class SeenKind { all_reduce, reduce_scatter, all_gather, indices, all_to_all, send, batch };

struct SeenCall {
  SeenKind kind = SeenKind::all_reduce;
  std::string label;
  std::string group;
  bool is_payload = true;
  int size = 0;  ///< Ranks of the group, above 1.
  friend auto operator<=>(const SeenCall&, const SeenCall&) = default;

  [[nodiscard]] bool is_reduction() const {
    return kind == SeenKind::all_reduce || kind == SeenKind::reduce_scatter;
  }
  /// Gradients, or weights, of data-parallel ranks.
  [[nodiscard]] bool is_of_buckets() const { return is_payload && group.starts_with("dp"); }
};

using SeenCalls = std::set<SeenCall>;

/// Those of a run without a bug, which must pass.
[[nodiscard]] SeenCalls calls_of(const Scenario& scenario);

}  // namespace shardsim::test
