#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/process_backend.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/real/state_image.hpp"

namespace shardsim {

/// The figures of one rank, measured or simulated, which are compared.
struct RankFigures {
  StateImage image;
  std::int64_t peak_bytes = 0;
  std::int64_t host_peak_bytes = 0;
  std::vector<GroupTraffic> groups;  ///< The rank's groups; with links that end at it.
};

/// The options of a simulation that make it comparable with a run.
struct SimulatedAs {
  ReductionOrder order = ReductionOrder::wire;
  bool rings_only = false;  ///< No trees, whatever the scenario's network would choose.
};

/// Runs the whole experiment with data, in this process, and returns the state and traffic of
/// `rank`. Throws the same as a simulation.
[[nodiscard]] RankFigures simulate_rank(const Experiment& experiment, int rank,
                                        const SimulatedAs& as = {});

/// Names of the parameters that the rank at `place` runs, by its own numbers.
[[nodiscard]] std::vector<std::string> parameter_names(const ParallelPlan& plan,
                                                       const MeshPlace& place);

}  // namespace shardsim
