#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sim/search/candidate_bound.hpp"
#include "sim/search/layout_space.hpp"

// Candidates that a search has not decided yet, least key first.
namespace shardsim {

/// How close a bound is: for a group of candidates, for one, or for one with the end of its step.
enum class Closeness : std::uint8_t { group, one, with_end };

/// A candidate, or a group that differs in the choice of data alone: the candidates of num_data
/// choices from place.data on. The bound is one for each of them.
struct OpenLayouts {
  Bound bound;
  LayoutPlace place;
  std::uint32_t num_data = 1;
  Closeness closeness = Closeness::group;
  std::size_t index = 0;  ///< The index of the candidate at `place`.
  double key = 0;         ///< The queue's.
};

/// The order is one of the entries alone: it does not depend on when they came.
class OpenQueue {
 public:
  using KeyOf = std::function<double(const Bound& bound)>;

  explicit OpenQueue(KeyOf key_of) : key_of_(std::move(key_of)) {}

  void push(OpenLayouts entry);
  /// REQUIRES: not empty. Ties: least memory first, which fits soonest; then by index.
  [[nodiscard]] OpenLayouts pop();
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  /// REQUIRES: not empty.
  [[nodiscard]] Closeness closeness_of_least() const { return heap_.front().closeness; }
  [[nodiscard]] const std::vector<OpenLayouts>& entries() const { return heap_; }
  [[nodiscard]] std::vector<OpenLayouts> take_all();

 private:
  KeyOf key_of_;
  std::vector<OpenLayouts> heap_;
};

}  // namespace shardsim
