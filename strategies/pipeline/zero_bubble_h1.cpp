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
namespace shardsim {

std::vector<Action> zero_bubble_h1(const PipelineShape& shape, int rank) {
  const int microbatches = shape.num_microbatches;
  const int warm_up = std::min(microbatches, shape.num_ranks - 1 - rank);
  const int delay = std::min(microbatches, rank);
  std::vector<Action> actions;
  for (int m = 0; m < warm_up; ++m) actions.push_back(make_action(ActionKind::forward, 0, m));
  for (int m = 0; m < microbatches; ++m) {
    if (m + warm_up < microbatches) {
      actions.push_back(make_action(ActionKind::forward, 0, m + warm_up));
    }
    actions.push_back(make_action(ActionKind::backward_input, 0, m));
    if (m >= delay) actions.push_back(make_action(ActionKind::backward_weight, 0, m - delay));
  }
  for (int m = microbatches - delay; m < microbatches; ++m) {
    actions.push_back(make_action(ActionKind::backward_weight, 0, m));
  }
  return actions;
}

}  // namespace shardsim
