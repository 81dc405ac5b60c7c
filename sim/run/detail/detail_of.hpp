#pragma once

#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/mesh.hpp"

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/detail/watched_run.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// A finished run, and its inputs.
struct EndedRun {
  const Experiment& experiment;
  const RunHooks& hooks;
  const World& world;
  const FiberOptions& options;  ///< Those with which fibers run it.
  const RunRecord& record;
  const Result& result;          ///< With its metrics.
  const DecisionLog* decisions;  ///< Those that it took or replayed; null: none.
};

/// The detail of the run for pages and tables. It runs the experiment once more; throws an internal
/// Error (E1391) if the second run differs.
[[nodiscard]] RunDetail detail_of(const EndedRun& run);

/// The experiment in the words of the scenario: for the head of every page.
[[nodiscard]] TextHeadline headline_of(const Experiment& experiment);

// --- Its tables --------------------------------------------------------------------------------
// Stages, traffic, and the rank that ends last.

/// By pipeline rank: the last step of the rank that ends last there, and the fullest one's peak.
[[nodiscard]] std::vector<StageTime> stage_times(const World& world, const RunRecord& record,
                                                 const MeshShape& mesh);

/// By pipeline rank, the fullest rank; of equal ranks, the lowest.
[[nodiscard]] std::vector<int> fullest_ranks(const World& world, const MeshShape& mesh);

/// The least clock at which the last step begins on a rank.
[[nodiscard]] Time begin_of_last_step(const World& world, const RunRecord& record);

/// Bytes from every rank to every other, in the mean step.
[[nodiscard]] TrafficMatrix traffic_matrix(const World& world, std::int64_t steps);

/// The same bytes by axis and tier, in the order of kAxisMetrics.
[[nodiscard]] std::vector<AxisTraffic> traffic_by_axis(const World& world, std::int64_t steps);

/// The use of both tiers if there are several nodes. `step_s`: the time that the shares refer to.
[[nodiscard]] std::vector<LinkUse> link_use(const World& world, const Experiment& experiment,
                                            double step_s);

/// Axes that sent or waited. In whole picoseconds they sum to the times of the result.
[[nodiscard]] std::vector<AxisComm> axis_table(const RankRecorder& recorder,
                                               const RunRecord& record, const Result& result);

/// The longest operations first.
[[nodiscard]] Roofline roofline_of(const RankRecorder& recorder, const Experiment& experiment);

}  // namespace shardsim
