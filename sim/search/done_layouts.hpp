#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include "sim/search/layout_space.hpp"

// Candidates that were simulated. Some were ahead of their turn: the given layout, and neighbours
// of the best. Groups that contain them still lie in queues, and must not decide them again.
namespace shardsim {

class DoneLayouts {
 public:
  void insert(const LayoutPlace& place) { places_.insert(key_of(place)); }
  [[nodiscard]] bool contains(const LayoutPlace& place) const {
    return places_.contains(key_of(place));
  }
  /// How many of the `num_data` choices from `place` on are here.
  [[nodiscard]] std::size_t count(LayoutPlace place, std::uint32_t num_data) const {
    const auto begin = places_.lower_bound(key_of(place));
    place.data += num_data;
    return static_cast<std::size_t>(std::distance(begin, places_.lower_bound(key_of(place))));
  }

 private:
  using Key = std::array<std::uint32_t, 4>;
  static Key key_of(const LayoutPlace& place) {
    return {place.block, place.batch, place.schedule, place.data};
  }
  std::set<Key> places_;
};

}  // namespace shardsim
