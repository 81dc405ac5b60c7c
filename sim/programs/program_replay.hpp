#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/kernel/rank_clock.hpp"
#include "sim/kernel/time.hpp"

#include "sim/hardware/cluster.hpp"

#include "sim/experiment/experiment.hpp"

#include "sim/programs/program_set.hpp"

// Programs on a machine: the time that they take there. Operations and communication are priced by
// the machine; holes keep the time that was recorded.
namespace shardsim {

/// The machine of `machine`'s scenario with as many nodes as these ranks fill. Faults stay where
/// the number of ranks is the scenario's own. Throws UsageError: E1087 where ranks do not lie
/// evenly on nodes, E1380 where faults would be lost.
[[nodiscard]] Cluster machine_of_ranks(int ranks, const Experiment& machine);

/// The same for `set`: its ranks, and this training's kernels.
[[nodiscard]] Cluster machine_for(const ProgramSet& set, const Experiment& machine);

struct ProgramReplay {
  /// From the begin of the last step to its end, on the rank that ends last; of programs that mark
  /// no steps, all of their time.
  Time step;
  Time whole;  ///< From the first start to the last end.
  bool has_steps = false;
  int last_rank = 0;                   ///< The one that ends last, or the lowest of such.
  TimeSplit split;                     ///< That rank's, in the step.
  std::int64_t sent_bytes = 0;         ///< Payload, by all ranks together.
  std::int64_t peak_memory_bytes = 0;  ///< By tensors, on the fullest rank; 0: not recorded.
  /// Computing of all ranks: priced by the machine, and taken over.
  double priced_s = 0.0;
  double taken_over_s = 0.0;
};

struct ProgramReplayOptions {
  Cluster cluster;
  double hole_factor = 1.0;  ///< As ReplayOptions.
  std::function<void()> on_progress = {};
};

/// Throws Error E1379 where the programs do not fit together, and what prices throw.
[[nodiscard]] ProgramReplay replay_programs_on(const ProgramSet& set,
                                               const ProgramReplayOptions& options);

struct KernelReport;  // kernel_report.hpp

/// For people, and one JSON object.
[[nodiscard]] std::string replay_text(const ProgramSet& set, const Cluster& cluster,
                                      const ProgramReplay& replay, const KernelReport& kernels);
[[nodiscard]] std::string replay_json(const ProgramSet& set, const Cluster& cluster,
                                      const ProgramReplay& replay, const KernelReport& kernels);

}  // namespace shardsim
