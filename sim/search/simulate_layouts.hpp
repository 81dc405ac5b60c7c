#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sim/search/layout_space.hpp"
#include "sim/search/open_layouts.hpp"
#include "sim/search/simulate_layout.hpp"

// The full simulations of some candidates, on several threads.
namespace shardsim {

struct LayoutsHooks {
  int jobs = 1;
  std::function<int()> jobs_now;  ///< How many of the jobs may work; see ParallelWork::at_a_time.
  std::function<bool()> is_over;  ///< Asked by any thread; simulations are then abandoned.
  std::function<void(const Simulation& run)> finished;  ///< Called by one thread at a time.
};

/// Nothing for a candidate whose simulation was abandoned, or did not start.
[[nodiscard]] std::vector<std::optional<Simulation>> simulate_layouts(
    const SearchBase& base, const LayoutSpace& space, std::span<const OpenLayouts> layouts,
    const LayoutsHooks& hooks);

}  // namespace shardsim
