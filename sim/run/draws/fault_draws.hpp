#pragma once

#include <cstdint>
#include <vector>

#include "backends/replay/replay_lanes.hpp"

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

// Faults that are drawn many times over one recording (docs/decisions/0063-drawn-faults.md). A draw
// is a function of the scenario's seed and its own number: neither threads nor the order of draws
// change it.
namespace shardsim {

/// The stragglers of a draw, and the key of its jitter.
[[nodiscard]] LaneFaults lane_of_draw(const Experiment& experiment, std::int64_t draw);

/// Figures of all draws, by their numbers.
struct FaultDraws {
  std::vector<double> step_s;  ///< The last step's time.
  // With failures:
  std::vector<double> kept_s;  ///< The work of a training, and
  std::vector<double> wall_s;  ///< the time that it takes.

  /// Share of kept work.
  [[nodiscard]] double goodput(std::size_t draw) const { return kept_s[draw] / wall_s[draw]; }
};

/// Throws ReplayEnded as ReplayWorld does. `programs`: of all ranks; may be null if draws change no
/// steps. `step_s`: the step without drawn faults. REQUIRES: faults.draws.count > 0.
[[nodiscard]] FaultDraws draw_faults(const Experiment& experiment, const RunHooks& hooks,
                                     const RankPrograms* programs, double step_s);

/// draws.*, from metrics that `metrics` has already.
void add_draws(const Experiment& experiment, const FaultDraws& draws, std::vector<Metric>& metrics);

/// The value that a share of all stays below: linear between neighbours. REQUIRES: not empty.
[[nodiscard]] double quantile_of(std::vector<double> values, double share);

}  // namespace shardsim
