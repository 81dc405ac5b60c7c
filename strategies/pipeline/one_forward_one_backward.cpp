#include <algorithm>

#include "strategies/pipeline/schedule_table.hpp"

// 1F1B (PipeDream-Flush; Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on
// GPU Clusters Using Megatron-LM"): p-1-r forwards to warm up, then a forward and a backward in
// turn, then the backwards that are left.
//
// Idle: the last rank starts after (p-1) F, then computes without a pause (all it needs for B is
// its own F), and its last gradient needs (p-1) B more to reach rank 0: (p-1)(F+B) on every rank,
// for every M, as in GPipe. Memory: rank r has the p-1-r microbatches of its warm-up in flight and
// one more: min(M, p-r). Cross-rank boundaries: p-1.
namespace shardsim {

std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int rank) {
  const int microbatches = shape.num_microbatches;
  const int warm_up = std::min(microbatches, shape.num_ranks - 1 - rank);
  RowBuilder row(shape);
  for (int m = 0; m < warm_up; ++m) row.forward();
  for (int m = warm_up; m < microbatches; ++m) {
    row.forward();
    row.backward();
  }
  for (int m = 0; m < warm_up; ++m) row.backward();
  return row.take();
}

}  // namespace shardsim
