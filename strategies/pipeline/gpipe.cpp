#include "strategies/pipeline/schedule_table.hpp"

// GPipe (Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline
// Parallelism"): all forwards, then all backwards.
//
// Idle: rank r waits r F until the first activation comes, and at the end (p-1-r) F and (p-1-r) B
// for the first gradient to come back, then r B for the ranks before it: (p-1)(F+B) on every rank,
// for every M. Memory: no backward runs before the last forward, so all M microbatches are in
// flight. Cross-rank boundaries: p-1.
//
// The paper runs backwards from the last microbatch to the first, which costs the same. Here the
// first comes first, as in every other schedule and on one device, so that gradients are summed in
// one order and agree bitwise.
namespace shardsim {

std::vector<Action> gpipe(const PipelineShape& shape, int /*rank*/) {
  RowBuilder row(shape);
  for (int m = 0; m < shape.num_microbatches; ++m) row.forward();
  for (int m = 0; m < shape.num_microbatches; ++m) row.backward();
  return row.take();
}

}  // namespace shardsim
