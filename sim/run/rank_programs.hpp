#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backends/replay/replay_world.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

// The programs of a plan's ranks, recorded once for all ranks that do the same
// (docs/decisions/0061-record-and-replay.md).
namespace shardsim {

/// Either the programs, or why there are none, as the end of a sentence.
struct RankRecording {
  std::optional<RankPrograms> programs;
  std::string obstacle;
};

/// Steps of all different programs together: 12 bytes each, so 400 MB. Beyond, fibers run the
/// ranks: a fourth as fast, in a tenth of the memory.
inline constexpr std::size_t kMostRecordedSteps = std::size_t{1} << 25U;

/// Records a rank of each class, and the last member of each class to compare. Ranks of unknown
/// classes are recorded one by one, and those with equal programs share one. More than `most_steps`
/// are an obstacle. `fold`: null if all ranks run. Throws what a plan's ranks throw.
[[nodiscard]] RankRecording record_ranks(const Experiment& experiment, const RunHooks& hooks,
                                         const Fold* fold,
                                         std::size_t most_steps = kMostRecordedSteps);

}  // namespace shardsim
