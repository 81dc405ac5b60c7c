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

class DualPipeRow {
 public:
  DualPipeRow(const PipelineShape& shape, int rank)
      : row_(shape),
        rank_(rank),
        is_last_(rank == shape.num_ranks - 1),
        ranks_after_(shape.num_ranks - 1 - rank),
        steady_(shape.num_microbatches - 2 * shape.num_ranks + rank + 1) {}

  std::vector<Action> make() {
    warm_up();
    for (int i = 0; i < steady_; ++i) {
      if (i == 0 && is_last_) {
        row_.forward(kDown);
        row_.backward(kUp);
      } else {
        row_.overlapped(kDown, kUp);
      }
      row_.overlapped(kUp, kDown);
    }
    for (int i = 0; i < ranks_after_; ++i) {
      row_.backward(kUp);
      row_.overlapped(kUp, kDown);
    }
    cool_down();
    return row_.take();
  }

 private:
  void warm_up() {
    for (int i = 0; i < 2 * ranks_after_; ++i) row_.forward(kDown);
    for (int i = 0; i < rank_ + 1; ++i) {
      row_.forward(kDown);
      row_.forward(kUp);
    }
    for (int i = 0; i < ranks_after_; ++i) {
      row_.backward_input(kUp);
      row_.backward_weight(kUp);
      row_.forward(kUp);
    }
  }

  // The first r+1 of the 2(r+1) backwards of step 6 are whole.
  void cool_down() {
    int whole = rank_ + 1;
    const auto backward = [&](int chunk) {
      if (whole-- > 0) {
        row_.backward(chunk);
      } else {
        row_.backward_input(chunk);
        put_off_.push_back(chunk);
      }
    };
    for (int i = 0; i < rank_ + 1; ++i) {
      backward(kUp);
      backward(kDown);
    }
    for (int i = 0; i < ranks_after_; ++i) {
      oldest_weight();
      backward(kDown);
    }
    while (!put_off_.empty()) oldest_weight();
  }

  void oldest_weight() {
    row_.backward_weight(put_off_.front());
    put_off_.pop_front();
  }

  RowBuilder row_;
  int rank_;
  bool is_last_;
  int ranks_after_;
  int steady_;
  std::deque<int> put_off_;  // Chunks of I whose W is to come.
};

}  // namespace

std::vector<Action> dualpipe_v(const PipelineShape& shape, int rank) {
  return DualPipeRow(shape, rank).make();
}

}  // namespace shardsim
