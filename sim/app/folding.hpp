#pragma once

#include <optional>
#include <string>

#include "backends/fiber/fold.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"
#include "sim/app/run.hpp"

// Which ranks of a run do the same (docs/decisions/0035).
namespace shardsim {

/// Either how to fold, or why not, as the end of a sentence.
struct Folding {
  std::optional<Fold> fold;
  std::string obstacle;
};
[[nodiscard]] Folding find_folding(const Scenario& scenario, const ParallelPlan& plan,
                                   const RunHooks& hooks);

/// As execution.fold says; what was done, or why it was not, is added to the assumptions or
/// warnings of `result`. Throws LimitError (E0310) where folding is required and cannot be.
[[nodiscard]] std::optional<Fold> choose_fold(const Scenario& scenario, const ParallelPlan& plan,
                                              const RunHooks& hooks, Result& result);

}  // namespace shardsim
