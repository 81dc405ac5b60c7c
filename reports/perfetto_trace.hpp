#pragma once

#include <string>
#include <vector>

#include "sim/kernel/trace.hpp"

// The trace in Perfetto's format (https://ui.perfetto.dev opens the file). It has one process per
// rank, one thread track per stream, and one counter track per memory category in use.
namespace shardsim {

/// A serialized `perfetto.protos.Trace`. Equal traces give equal bytes.
///
/// Times are whole nanoseconds (see reports/trace_layout.hpp for the rounding). Slices carry
/// `bytes`, `label` and `operation` as debug annotations where they have them; `operation` is the
/// same on all members of one collective. Names are escaped as on a terminal, so they are always
/// valid UTF-8.
///
/// REQUIRES: times are not negative; slices of a track do not overlap and are in order of time;
/// ranks differ from each other.
[[nodiscard]] std::string to_perfetto(const std::vector<RankTrace>& traces);

}  // namespace shardsim
