#pragma once

#include <functional>
#include <memory>

#include "strategies/training/parallel_plan.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// Plants bugs around the gradient synchronization of each rank, and around its model. No call shows
// these bugs: they are in counts, in the start of a reduction, and in arithmetic.
namespace shardsim::test {

/// The parts that one rank trains with; `inner` is right.
struct SyncOfRank {
  GradientSync& inner;
  const ParallelPlan& plan;
  Runtime& runtime;
  Mesh& mesh;
};
using WrapSync = std::function<std::unique_ptr<GradientSync>(const SyncOfRank&)>;

/// Runs a scenario in which each rank trains with what `wrap` makes of its gradient
/// synchronization; exit code, diagnosis and what the oracle says as run_scenario gives them.
/// REQUIRES: fp64.
[[nodiscard]] Result run_with_sync(const Scenario& scenario, const WrapSync& wrap);

using WrapModel = std::function<std::unique_ptr<Model>(const SyncOfRank&)>;
/// The same with what `wrap` makes of each rank's model. All ranks call it at the same point, and
/// may split groups there.
[[nodiscard]] Result run_with_model(const Scenario& scenario, const WrapModel& wrap);

}  // namespace shardsim::test
