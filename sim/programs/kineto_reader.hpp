#pragma once

#include <string_view>
#include <vector>

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/trace_link.hpp"

// Traces of PyTorch's profiler (Kineto), one file of JSON for each rank: kernels with streams and
// times, and NCCL's kernels with what they move.
//
// Such a trace tells no dependencies. They are taken from its times: communication comes behind the
// last computing that had ended when it began; computing that begins after a gap waits for the
// communication that ended in the gap; what is left of a gap is the host's time.
namespace shardsim {

/// Whether a text is JSON with "traceEvents".
[[nodiscard]] bool looks_like_kineto(std::string_view text);

/// Notes say which part of the kernels' time is priced or taken over, and what the traces cannot
/// say. A file's rank is that of its "distributedInfo", where there is one. `num_ranks`: gets the
/// size of the world, or 0. Throws UsageError E1384 with the place for texts that are no such
/// trace.
[[nodiscard]] TraceSet read_kineto(const std::vector<TraceFile>& files, int& num_ranks);

}  // namespace shardsim
