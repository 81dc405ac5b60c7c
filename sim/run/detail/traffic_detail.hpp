#pragma once

#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// Bytes from every rank to every other, in the mean step.
[[nodiscard]] TrafficMatrix traffic_matrix(const FiberWorld& world, std::int64_t steps);

/// The use of both tiers if there are several nodes. `step_s`: the time that the shares refer to.
[[nodiscard]] std::vector<LinkUse> link_use(const FiberWorld& world, const Experiment& experiment,
                                            double step_s);

}  // namespace shardsim
