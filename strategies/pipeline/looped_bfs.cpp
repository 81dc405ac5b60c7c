#include <algorithm>

#include "strategies/pipeline/schedule_table.hpp"

// Looped BFS (Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism"): GPipe over V chunks per
// rank: all microbatches through chunk 0, all through chunk 1, and so on; backwards through the
// chunks in reverse. Each chunk's gradients are complete at once, which suits sharded data
// parallelism.
//
// Idle: with M >= p the first microbatch is back on rank 0 before it has finished the chunk, so
// only the way to the last rank and back is waited for, at 1/V of the time: (p-1)(F+B)/V. With M <
// p every one of the V-1 turns waits p-M chunk times more: (p-1 + (V-1)(p-M)) (F+B)/V. Memory: all
// M microbatches. Cross-rank boundaries: pV-1.
//
// Sends in flight: the last rank makes the chunk's m-th result at chunk time p+m, but rank 0, which
// first finishes the chunk, only fetches it at M+m-1, one action before it needs it. So M-p-1
// results wait, and with fewer sends in flight the last rank waits instead, and so in the end do
// all: with two sends, two ranks deadlock from 10 microbatches on. With V = 1 the last rank sends
// nothing to the first, and the schedule is GPipe.
namespace shardsim {

std::vector<Action> looped_bfs(const PipelineShape& shape, int /*rank*/) {
  RowBuilder row(shape);
  for (int chunk = 0; chunk < shape.num_chunks; ++chunk) {
    for (int m = 0; m < shape.num_microbatches; ++m) row.forward(chunk);
  }
  for (int chunk = shape.num_chunks; chunk-- > 0;) {
    for (int m = 0; m < shape.num_microbatches; ++m) row.backward(chunk);
  }
  return row.take();
}

int looped_bfs_sends_in_flight(const PipelineShape& shape) {
  if (shape.num_chunks == 1) return kTwoSends;
  return std::max(kTwoSends, shape.num_microbatches - shape.num_ranks - 1);
}

}  // namespace shardsim
