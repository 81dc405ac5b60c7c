#pragma once

#include <string>

#include "sim/export/recorded_run.hpp"

// Traces as PyTorch's profiler (Kineto) writes them, for tools that read those: one JSON per rank,
// with distributedInfo, an event of category "kernel" per operation under the number of its stream,
// and NCCL's kernels with the fields of record_param_comms. A simulation has no host, and so no
// operators and no launches: tools show none.
namespace shardsim {

/// The file of one rank.
[[nodiscard]] std::string to_kineto(const RecordedRun& run, int rank);

}  // namespace shardsim
