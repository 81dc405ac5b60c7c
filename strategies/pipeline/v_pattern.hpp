#pragma once

#include <array>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Private to strategies/pipeline: schedules in V placement made of one building block (Qi et al.
// 2024, "Pipeline Parallelism with Controllable Memory"). The block says when, in units of one F, I
// or W of a chunk, each rank runs a microbatch; the next microbatch follows six units later, as it
// has six parts on every rank. How long a microbatch stays in flight in the block sets the memory.
namespace shardsim {

/// When the first microbatch runs on one rank: F of the chunk going down, F going up, I going up,
/// I going down.
using BlockTimes = std::array<int, 4>;

/// The order of F and I on every rank is that of the blocks. It is run unit by unit: a rank runs
/// the next of them as soon as its input is there, an F only while the rank holds fewer than
/// `most_held` activations (of one chunk and microbatch), and otherwise the oldest W, if one was
/// put off. REQUIRES: two chunks; blocks that collide nowhere; most_held at least what they hold
/// themselves.
[[nodiscard]] std::vector<std::vector<Action>> rows_of_blocks(const PipelineShape& shape,
                                                              const std::vector<BlockTimes>& blocks,
                                                              int most_held);

}  // namespace shardsim
