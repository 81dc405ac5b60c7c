#include <algorithm>

#include "strategies/pipeline/schedule_table.hpp"

// Combined 1F1B (Megatron-Core, combined_1f1b.py: --overlap-moe-expert-parallel-comm): in steady
// state each forward and the backward after it are one block, so that tokens of the one travel to
// experts while the other computes. A block needs an input from both sides at once. So a rank runs
// one more forward ahead than in interleaved 1F1B, whose order it has otherwise: on the last rank,
// too, forward and backward are then of different microbatches. It runs on one rank as well.
//
// Warm-up: 2(p-1-r) + (V-1)p + 1 forwards. Idle, where F&B takes F + B: (p-1)(F+B)/V, as
// interleaved 1F1B. Memory: a chunk more than there.
namespace shardsim {

std::vector<Action> combined(const PipelineShape& shape, int rank) {
  const int total = shape.num_microbatches * shape.num_chunks;
  const int ahead = 2 * (shape.num_ranks - 1 - rank) + (shape.num_chunks - 1) * shape.num_ranks + 1;
  const int warm_up = std::min(total, ahead);
  const auto chunk_of = [&](int k) { return k / shape.num_ranks % shape.num_chunks; };
  const auto backward_chunk_of = [&](int k) { return shape.num_chunks - 1 - chunk_of(k); };
  RowBuilder row(shape);
  for (int k = 0; k < warm_up; ++k) row.forward(chunk_of(k));
  for (int k = warm_up; k < total; ++k) {
    row.overlapped(chunk_of(k), backward_chunk_of(k - warm_up));
  }
  for (int k = total - warm_up; k < total; ++k) row.backward(backward_chunk_of(k));
  return row.take();
}

}  // namespace shardsim
