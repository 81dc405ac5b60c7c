#pragma once

#include <vector>

#include "sim/kernel/trace.hpp"

namespace shardsim::samples {

/// Ranks 0 and 5 of a run, with what is hard to show: times between nanoseconds, slices that touch,
/// one shorter than half a nanosecond, communication beside compute, names with quotes and escapes.
std::vector<RankTrace> two_ranks();

}  // namespace shardsim::samples
