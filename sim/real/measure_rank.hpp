#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/process_backend.hpp"

#include "reports/result.hpp"
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

/// The facts about a run on real processes that the ranks' reports alone do not contain.
struct MeasuredRun {
  std::string backend;  ///< "mpi", "nccl"
  std::string library;  ///< The MPI or NCCL in use, one line.
  /// Whether sums were formed in the simulation's order: then every bit must be the same. Otherwise
  /// errors must be within `tolerance`, and bytes depend on the library.
  bool same_order = true;
  std::vector<std::string> notes;  ///< Remarks on the run for the reader.
  std::string why_no_wire;         ///< If the library has not counted its bytes: one sentence.
  /// Received over the loopback interface during the training; empty: not counted.
  std::optional<std::int64_t> loopback_bytes;
};

/// Adds `measured.*` and the checks of a real run to the simulation's result: values, replicas,
/// bytes, links, memory and, if the library counts, the wire. `reports`: those of all ranks.
void add_measured(Result& result, const Experiment& experiment, const MeasuredRun& run,
                  const std::vector<MeasuredRank>& reports);

}  // namespace shardsim
