#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/search/done_layouts.hpp"
#include "sim/search/found_layouts.hpp"
#include "sim/search/layout_bounds.hpp"

// A search's steps from the best layout to better neighbours. Bounds of experts are loose, so many
// layouts with low bounds are poor, while few steps lead from one of them to a good one.
namespace shardsim {

class Descent {
 public:
  /// All outlive it.
  Descent(const LayoutSpace& space, LayoutBounds& bounds, const FoundLayouts& found,
          const DoneLayouts& done)
      : space_(space), bounds_(bounds), found_(found), done_(done) {}

  /// The neighbours of the best that are simulated next, those with the lowest bounds first. While
  /// nothing fits, the best is the one that needs least memory. None: no neighbour can be better,
  /// or nothing is simulated. A new best has neighbours of its own.
  [[nodiscard]] std::vector<OpenLayouts> next();

 private:
  // Those that could lead, and are not simulated yet.
  [[nodiscard]] std::vector<OpenLayouts> open_neighbours(const Candidate& candidate);

  const LayoutSpace& space_;
  LayoutBounds& bounds_;
  const FoundLayouts& found_;
  const DoneLayouts& done_;
  std::optional<std::size_t> from_;  // The index of the best whose neighbours are left.
  std::vector<OpenLayouts> left_;    // The best last.
};

}  // namespace shardsim
