#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/real/rank_report.hpp"

namespace shardsim {

/// The facts about a run on real processes that the ranks' reports alone do not contain.
struct MeasuredRun {
  std::string backend;  ///< "mpi", "nccl"
  std::string library;  ///< The MPI or NCCL in use, one line.
  /// Whether sums were formed in the simulation's order: then every bit must be the same. Otherwise
  /// errors must be within `tolerance`, and bytes depend on the library.
  bool same_order = true;
  std::vector<std::string> notes;  ///< Remarks on the run for the reader.
  std::string why_no_wire;         ///< If the library has not counted its bytes: one sentence.
  /// Received over the loopback interface during the training; empty: not counted.
  std::optional<std::int64_t> loopback_bytes;
};

/// Adds `measured.*` and the checks of a real run to the simulation's result: values, replicas,
/// bytes, links, memory and, if the library counts, the wire. `reports`: those of all ranks.
void add_measured(Result& result, const Experiment& experiment, const MeasuredRun& run,
                  const std::vector<MeasuredRank>& reports);

}  // namespace shardsim
