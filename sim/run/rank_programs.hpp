#pragma once

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

/// Records a rank of each class, and the last member of each class to compare. Ranks of unknown
/// classes are recorded one by one, and those with equal programs share one. Throws what a plan's
/// ranks throw.
[[nodiscard]] RankRecording record_ranks(const Experiment& experiment, const RunHooks& hooks);

}  // namespace shardsim
