#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "sim/run/run.hpp"
#include "sim/sweep/point_row.hpp"
#include "sim/sweep/sweep_plan.hpp"

// One point, from its number to its row.
namespace shardsim {

/// Whether a row of the point with this key exists already.
using IsComplete = std::function<bool(std::size_t point, const std::string& key)>;

/// Nothing if the point is complete, else its row. Every failure of a point is in its row: one bad
/// point does not end a sweep. May be called from any thread.
[[nodiscard]] std::optional<PointRow> run_point(const SweepPlan& plan, std::size_t point,
                                                const IsComplete& is_complete,
                                                const RunHooks& hooks);

}  // namespace shardsim
