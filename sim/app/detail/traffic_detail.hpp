#pragma once

#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// From every rank to every other, of the mean step.
[[nodiscard]] TrafficMatrix traffic_matrix(const FiberWorld& world, std::int64_t steps);

/// Of both tiers, where there are several nodes. `step_s`: what the shares are of.
[[nodiscard]] std::vector<LinkUse> link_use(const FiberWorld& world, const Experiment& experiment,
                                            double step_s);

}  // namespace shardsim
