#pragma once

#include "backends/fiber/fiber_world.hpp"

#include "reports/run_detail.hpp"
#include "sim/app/run.hpp"
#include "sim/app/run_record.hpp"

namespace shardsim {

/// A run that has ended, and what it was made from.
struct EndedRun {
  const Experiment& experiment;
  const RunHooks& hooks;
  const FiberWorld& world;
  const RunRecord& record;
  const Result& result;          ///< With its metrics.
  const DecisionLog* decisions;  ///< That it took or replayed; null: none.
};

/// What pages and tables show of it. Runs it once more; throws an internal Error (E1391) if that
/// was not the same.
[[nodiscard]] RunDetail detail_of(const EndedRun& run);

}  // namespace shardsim
