#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strategies/pipeline/protocol.hpp"
#include "strategies/pipeline/schedule.hpp"

// The protocol of strategies/pipeline/lower.hpp once more, in the most obvious way and by nothing
// but its words: rank after rank, round after round, until nothing moves. It is what the validator
// and the timeline are compared with.
namespace shardsim::test {

/// Whether a lowered schedule runs to its end, nothing is used before it is there, and every
/// transfer is what its receiver expects. Does not notice what is missing altogether.
bool naive_runs(const PipelineSchedule& lowered);

/// When everything happens in a lowered schedule that naive_runs; as Timeline::spans.
std::vector<std::vector<ActionSpan>> naive_times(
    const PipelineSchedule& lowered,
    const std::function<std::int64_t(ActionKind kind, int stage)>& compute, std::int64_t message);

}  // namespace shardsim::test
