#pragma once

#include "strategies/pipeline/timeline.hpp"

// A schedule as it really runs: by the executor, on the in-memory backend, in virtual time, with
// stages that take given times. Everything here is read from what the engine has recorded.
namespace shardsim::test {

struct MeasuredPipeline {
  /// As timeline() would have it. Spans are slices of the compute stream, and for sends and
  /// receives the moment of posting and the end of the transfer's slice. Idle time is what the
  /// engine counts as waiting, up to the makespan. Activations in flight are bytes in the ledger.
  Timeline timeline;
  /// Names of the compute operations, [rank][cell]: "2F0", "2I0 2W0" for a B; empty for transfers.
  std::vector<std::vector<std::string>> computed;
  std::vector<int> peak_messages;  ///< Most tensors between stages that each rank holds at once.
  std::int64_t bytes_sent = 0;     ///< From stage to stage.
};

/// Runs one step. Throws CommunicationError if it deadlocks.
/// REQUIRES: a lowered schedule of two ranks or more with loop placement.
[[nodiscard]] MeasuredPipeline run_pipeline(const PipelineSchedule& lowered,
                                            const ScheduleCosts& costs);

}  // namespace shardsim::test
