#include "strategies/pipeline/schedule_table.hpp"

// ZB-V (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 6; the order is that of the
// authors' handcrafted schedule, which PyTorch's ScheduleZBVZeroBubble has, too): two chunks per
// rank, placed down the ranks and up again, so that the last stage and the first are on one rank
// and its first backward can begin as soon as the first microbatch is back.
//
// Order on rank r: 2(p-r)-1 forwards of the chunk going down; r pairs of one going up and one going
// down, while the first microbatch is below; p-r times F, I and W going up. Then F, I, W of each
// chunk in turn as long as there are forwards. In the end the rank's r last input gradients of both
// chunks without their W, which later ranks wait for, and the rest with what W is left.
//
// Idle, from a rank's own first start to its last end: none with F = I = W. From the start of the
// step rank r also waits r forwards of a chunk, and ranks before it wait in the end for as long:
// (p-1) F/2 on every rank. The paper states no formula for other ratios.
// Memory: 2(p-r)-1 + 2r + 1 = 2p chunks, which is p microbatches, on every rank.
// Cross-rank boundaries: 2(p-1), as the turn at rank p-1 needs no message. Needs M >= 2p-1.
namespace shardsim {

namespace {

void backward_halves(RowBuilder& row, int chunk) {
  row.backward_input(chunk);
  row.backward_weight(chunk);
}

}  // namespace

std::vector<Action> zero_bubble_v(const PipelineShape& shape, int rank) {
  const int later_ranks = shape.num_ranks - rank;  // This one included.
  RowBuilder row(shape);
  for (int i = 0; i < 2 * later_ranks - 1; ++i) row.forward(kDown);
  for (int i = 0; i < rank; ++i) {
    row.forward(kUp);
    row.forward(kDown);
  }
  for (int i = 0; i < later_ranks; ++i) {
    row.forward(kUp);
    backward_halves(row, kUp);
  }
  while (row.forwards(kUp) < shape.num_microbatches) {
    if (row.forwards(kDown) < shape.num_microbatches) row.forward(kDown);
    backward_halves(row, kDown);
    row.forward(kUp);
    backward_halves(row, kUp);
  }
  for (int i = 0; i < rank; ++i) {
    row.backward_input(kDown);
    row.backward_input(kUp);
  }
  for (int i = 0; i < later_ranks; ++i) backward_halves(row, kDown);
  for (const int chunk : {kUp, kDown}) {
    while (row.pending_weights(chunk) > 0) row.backward_weight(chunk);
  }
  return row.take();
}

}  // namespace shardsim
