#include "strategies/pipeline/schedule_table.hpp"
#include "strategies/pipeline/v_pattern.hpp"

// V-Half (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): 1F1B's throughput in
// half its memory, about. In its block a microbatch goes down at two units per rank and up at one,
// forward and backward; three units are inserted in the middle where p is even, as the streams
// would collide. The times are those of the authors' implementation; where W go, and how the block
// is squeezed at both ends, is our own (v_pattern.hpp).
//
// Memory: a microbatch's two stays on a rank add up to 6p units or a few more, at six units per
// microbatch p chunks, and there are one or two more at the ends of the stays: 2 (floor(p/2) + 1)
// chunks, floor(p/2) + 1 microbatches, on the worst rank. p/2 is the limit for large p.
// Idle: with F = I = W of a chunk the squeezed schedule waits 3(p-1) of them, one less for odd p:
// half of 1F1B's (p-1)(F+B), which is 6(p-1). Found by tests for all p up to 16; for other ratios
// there is no formula. Cross-rank boundaries: 2(p-1). Needs M >= 2p-1.
namespace shardsim {

std::vector<std::vector<Action>> v_half(const PipelineShape& shape) {
  const int p = shape.num_ranks;
  const int inserted = p % 2 == 0 ? 3 : 0;
  std::vector<BlockTimes> blocks;
  for (int r = 0; r < p; ++r) {
    blocks.push_back(
        {2 * r, 3 * p - r - 2, 3 * p + inserted + 2 * r - 1, 6 * p + inserted - r - 2});
  }
  return rows_of_blocks(shape, blocks, 2 * (p / 2 + 1));
}

}  // namespace shardsim
