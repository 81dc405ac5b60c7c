#include <algorithm>

#include "strategies/pipeline/schedule_table.hpp"

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

std::vector<Action> zero_bubble_h2(const PipelineShape& shape, int rank) {
  const int microbatches = shape.num_microbatches;
  const int warm_up = 2 * (shape.num_ranks - 1 - rank) + 1;
  const int delay = 2 * rank;
  std::vector<Action> actions;
  for (int m = 0; m < warm_up; ++m) actions.push_back(make_action(ActionKind::forward, 0, m));
  for (int m = 0; m < microbatches; ++m) {
    actions.push_back(make_action(ActionKind::backward_input, 0, m));
    if (m >= delay) actions.push_back(make_action(ActionKind::backward_weight, 0, m - delay));
    if (m + warm_up < microbatches) {
      actions.push_back(make_action(ActionKind::forward, 0, m + warm_up));
    }
  }
  for (int m = microbatches - delay; m < microbatches; ++m) {
    actions.push_back(make_action(ActionKind::backward_weight, 0, m));
  }
  return actions;
}

}  // namespace shardsim
