#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "sim/app/process/rank_report.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// What the ranks' reports alone do not say about a run on real processes.
struct MeasuredRun {
  std::string backend;  ///< "mpi", "nccl"
  std::string library;  ///< Which MPI or NCCL, one line.
  /// Whether sums were formed in the simulation's order: then every bit must be the same. Else
  /// errors must be within `tolerance`, and bytes are what the library makes of them.
  bool same_order = true;
  std::vector<std::string> notes;  ///< What a reader must know of how it ran.
  std::string why_no_wire;  ///< Where the library has not counted what it sent: one sentence.
  /// Received over the loopback interface during the training; empty: not counted.
  std::optional<std::int64_t> loopback_bytes;
};

/// Adds `measured.*` and the checks of a real run to the simulation's result: values, replicas,
/// bytes, links, memory and, where the library counts, the wire. `reports`: of all ranks.
void add_measured(Result& result, const Experiment& experiment, const MeasuredRun& run,
                  const std::vector<MeasuredRank>& reports);

}  // namespace shardsim
