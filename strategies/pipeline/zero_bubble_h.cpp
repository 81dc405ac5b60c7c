#include <algorithm>

#include "strategies/pipeline/schedule_table.hpp"

// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B whose backward is split. I comes
// where 1F1B has B, so gradients travel back sooner; the W of a microbatch follows r microbatches
// later on rank r and fills what would be a bubble.
//
// Idle, if W is no longer than F and I: the last rank starts after (p-1) F; until its last I it has
// run M F, M I and the W of all but min(M, p) microbatches; that gradient needs (p-1) I to reach
// rank 0, which runs one last W. Together M (F+I+W) + (p-1)(F+I) - (min(M, p) - 1) W, so idle is
// (p-1)(F+I-W) for M >= p, as in the paper, and (p-1)(F+I) - (M-1) W below. A longer W fills no
// more than what there is to fill: the start costs (p-1) F in any case and the way back (p-1) I. In
// all, (p-1)(F+I) - (min(M, p) - 1) min(F, I, W), which tests find exact for all F, I and W.
// Memory: p-r microbatches before their I and r that wait for their W, min(M, p) on every rank
// (1F1B has that on rank 0 only). Cross-rank boundaries: p-1.
//
// ZB-H2 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): as ZB-H1, but rank r warms up with
// 2(p-1-r) + 1 forwards, so that it is busy until the first gradient comes back, and puts weight
// gradients off by 2r microbatches, which fill the way of the last gradient.
//
// Idle, from a rank's own first start to its last end: none with F = I = W; (p-1)(F+I-2W) on the
// worst rank for W no longer than F and I, as in the paper; at most (p-1)(F+I-2 min(F, I, W)) for
// any. From the start of the step every rank idles as long as all: the last one waits (p-1) F for
// its first microbatch, in all (p-1) max(F, F+I-2 min(F, I, W)). Tests find this exact.
// Memory: 2(p-1-r) + 1 microbatches before their I and 2r that wait for their W, 2p-1 on every
// rank. Cross-rank boundaries: p-1. Needs M >= 2p-1, its longest warm-up.
namespace shardsim {

namespace {

// `warm_up` forwards, then I, F and the W of the microbatch `delay` earlier in turn.
std::vector<Action> input_then_weight(const PipelineShape& shape, int warm_up, int delay) {
  RowBuilder row(shape);
  for (int m = 0; m < warm_up; ++m) row.forward();
  for (int m = 0; m < shape.num_microbatches; ++m) {
    row.backward_input();
    if (m >= delay) row.backward_weight();
    if (row.forwards() < shape.num_microbatches) row.forward();
  }
  while (row.pending_weights() > 0) row.backward_weight();
  return row.take();
}

}  // namespace

std::vector<Action> zero_bubble_h1(const PipelineShape& shape, int rank) {
  return input_then_weight(shape, std::min(shape.num_microbatches, shape.num_ranks - rank), rank);
}

std::vector<Action> zero_bubble_h2(const PipelineShape& shape, int rank) {
  return input_then_weight(shape, 2 * (shape.num_ranks - 1 - rank) + 1, 2 * rank);
}

}  // namespace shardsim
