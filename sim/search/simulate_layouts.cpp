#include "sim/search/simulate_layouts.hpp"

#include "sim/console/parallel.hpp"

namespace shardsim {

std::vector<std::optional<Simulation>> simulate_layouts(const SearchBase& base,
                                                        const LayoutSpace& space,
                                                        std::span<const OpenLayouts> layouts,
                                                        const LayoutsHooks& hooks) {
  std::vector<std::optional<Simulation>> runs(layouts.size());
  const auto simulate = [&](std::size_t i) {
    try {
      runs[i] =
          simulate_layout(base, layouts[i].index, space.candidate(layouts[i].place), hooks.is_over);
    } catch (const SimulationAbandoned&) {
    }
  };
  const auto finish = [&](std::size_t i) {
    if (runs[i]) hooks.finished(*runs[i]);
  };
  run_parallel(
      layouts.size(), hooks.jobs,
      {.body = simulate, .finished = finish, .stop = hooks.is_over, .at_a_time = hooks.jobs_now});
  return runs;
}

}  // namespace shardsim
