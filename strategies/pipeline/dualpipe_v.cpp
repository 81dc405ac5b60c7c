#include <deque>

#include "strategies/pipeline/schedule_table.hpp"

// DualPipeV (DeepSeek-AI, the DualPipe repository; "cut in half" of DualPipe in the DeepSeek-V3
// report, 2024): two chunks per rank in V placement, and in steady state one microbatch's forward
// in one chunk overlaps with another's backward in the other, so that the communication within the
// one can hide behind the computing of the other. Such a block is atomic: what it makes leaves at
// its end.
//
// Order on rank r, in the repository's eight steps; down is chunk 0, up chunk 1:
//   1  2(p-1-r) F down              5  p-1-r times B up, then F up & B down
//   2  r+1 times F down, F up       6  r+1 times B up, B down; from the middle on, I for B
//   3  p-1-r times I, W and F up    7  p-1-r times the oldest W, then I down
//   4  M-2p+r+1 times F down & B up, then F up & B down;    8  the W that are left
//      on the last rank the very first F and B do not overlap
//
// Idle with F, I, W of one chunk and F = I = W: (p-1)(F&B + B - 3W) on the worst rank, rank 0, in
// both definitions: it is the first to start and the last to end. With W <= F <= I that formula,
// where F&B takes F + B, is an upper bound (found by tests); with other ratios it may be exceeded.
// Memory: 2p+1 chunks on every rank: 2p forwards before the first whole backward ends, and the
// forward beside it. Cross-rank boundaries: 2(p-1). Needs M >= 2p.
namespace shardsim {

namespace {

// Steps 6 to 8.
void cool_down(RowBuilder& row, int rank, int ranks_after) {
  std::deque<int> put_off;  // Chunks of I whose W is to come.
  int whole = rank + 1;     // The first r+1 of the 2(r+1) backwards of step 6 are whole.
  const auto backward = [&](int chunk) {
    if (whole-- > 0) return row.backward(chunk);
    row.backward_input(chunk);
    put_off.push_back(chunk);
  };
  const auto oldest_weight = [&] {
    row.backward_weight(put_off.front());
    put_off.pop_front();
  };
  for (int i = 0; i < rank + 1; ++i) {
    backward(kUp);
    backward(kDown);
  }
  for (int i = 0; i < ranks_after; ++i) {
    oldest_weight();
    backward(kDown);
  }
  while (!put_off.empty()) oldest_weight();
}

}  // namespace

std::vector<Action> dualpipe_v(const PipelineShape& shape, int rank) {
  const int ranks_after = shape.num_ranks - 1 - rank;
  const int steady = shape.num_microbatches - 2 * shape.num_ranks + rank + 1;
  RowBuilder row(shape);
  for (int i = 0; i < 2 * ranks_after; ++i) row.forward(kDown);
  for (int i = 0; i < rank + 1; ++i) {
    row.forward(kDown);
    row.forward(kUp);
  }
  for (int i = 0; i < ranks_after; ++i) {
    row.backward_input(kUp);
    row.backward_weight(kUp);
    row.forward(kUp);
  }
  for (int i = 0; i < steady; ++i) {
    if (i == 0 && ranks_after == 0) {
      row.forward(kDown);
      row.backward(kUp);
    } else {
      row.overlapped(kDown, kUp);
    }
    row.overlapped(kUp, kDown);
  }
  for (int i = 0; i < ranks_after; ++i) {
    row.backward(kUp);
    row.overlapped(kUp, kDown);
  }
  cool_down(row, rank, ranks_after);
  return row.take();
}

}  // namespace shardsim
