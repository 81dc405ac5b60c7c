#include "strategies/pipeline/schedule_table.hpp"
#include "strategies/pipeline/v_pattern.hpp"

// V-Min (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): the least memory that a
// V placement allows. In its block a microbatch goes down and up and down and up at one unit per
// rank, without a pause but for two units in the middle where 3 divides p, as the streams would
// collide. The times are those of the authors' implementation; where W go, and how the block is
// squeezed at both ends, is our own (v_pattern.hpp).
//
// Memory: a microbatch's two stays on a rank add up to 4p units, at six units per microbatch 2p/3
// chunks, and there are one or two more at the ends of the stays: 2 (floor((p+1)/3) + 1) chunks,
// floor((p+1)/3) + 1 microbatches, on the worst rank. p/3 is the limit for large p.
// Idle: with F = I = W of a chunk the squeezed schedule waits 4(p-1) of them, one less or, where 3
// divides p, one more: two thirds of 1F1B's (p-1)(F+B), which is 6(p-1). Found by tests for all p
// up to 16; for other ratios there is no formula, and any imbalance of F, I and W costs idle time
// in every microbatch. Cross-rank boundaries: 2(p-1). Needs M >= 2p-1.
namespace shardsim {

std::vector<std::vector<Action>> v_min(const PipelineShape& shape) {
  const int p = shape.num_ranks;
  const int inserted = p % 3 == 0 ? 2 : 0;
  std::vector<BlockTimes> blocks;
  for (int r = 0; r < p; ++r) {
    blocks.push_back({r, 2 * p - r - 1, 2 * p + inserted + r, 4 * p + inserted - r - 1});
  }
  return rows_of_blocks(shape, blocks, 2 * ((p + 1) / 3 + 1));
}

}  // namespace shardsim
