#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/process_backend.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/real/rank_report.hpp"
#include "sim/run/run.hpp"

// One rank of a real run: trained for real, simulated, and compared.
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

/// Compares a rank's state and traffic with its simulation: values bit by bit, memory, counters by
/// group, payload by link. The wire is left open.
[[nodiscard]] MeasuredRank compare_rank(const ParallelPlan& plan, int rank,
                                        const RankFigures& measured, const RankFigures& simulated);

/// The setting of a rank of a real run besides its backend.
struct RankSetting {
  const Experiment* experiment = nullptr;
  /// RunHooks::wrap_world; may be empty.
  std::function<std::unique_ptr<Communicator>(Communicator& world)> wrap_world;
  /// Called before the training and after it, when no operation of it is under way here; all ranks
  /// wait for each other in it. May be empty.
  std::function<void()> meet;
  /// The backend has rings only, whatever the scenario's network would choose.
  bool rings_only = false;
  /// Sums are formed in another order than in the simulation: measures the effect of that alone.
  bool other_order = false;
};

/// Trains this process's rank for real, and nothing more. Throws what the training throws.
[[nodiscard]] RankFigures train_for_real(const RankSetting& setting, ProcessBackend& backend);

/// Trains this process's rank for real, simulates it, and compares. Throws what the training
/// throws.
[[nodiscard]] MeasuredRank measure_rank(const RankSetting& setting, ProcessBackend& backend);

}  // namespace shardsim
