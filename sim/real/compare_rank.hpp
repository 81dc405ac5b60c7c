#pragma once

#include <vector>

#include "sim/real/rank_report.hpp"
#include "sim/real/simulated_rank.hpp"

namespace shardsim {

/// Compares a rank's state and traffic with its simulation: values bit by bit, memory, counters by
/// group, payload by link. The wire is left open.
[[nodiscard]] MeasuredRank compare_rank(const ParallelPlan& plan, int rank,
                                        const RankFigures& measured, const RankFigures& simulated);

/// One hash per step and kind, as "step/kind/hash", over all that an image holds of it, except
/// state that its rank alone has.
[[nodiscard]] std::vector<std::string> hashes_of(const StateImage& image);

}  // namespace shardsim
