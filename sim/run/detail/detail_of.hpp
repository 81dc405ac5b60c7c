#pragma once

#include "backends/fiber/fiber_world.hpp"

#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// A finished run, and its inputs.
struct EndedRun {
  const Experiment& experiment;
  const RunHooks& hooks;
  const FiberWorld& world;
  const RunRecord& record;
  const Result& result;          ///< With its metrics.
  const DecisionLog* decisions;  ///< Those that it took or replayed; null: none.
};

/// The detail of the run for pages and tables. It runs the experiment once more; throws an internal
/// Error (E1391) if the second run differs.
[[nodiscard]] RunDetail detail_of(const EndedRun& run);

/// The experiment in the words of the scenario: for the head of every page.
[[nodiscard]] TextHeadline headline_of(const Experiment& experiment);

}  // namespace shardsim
