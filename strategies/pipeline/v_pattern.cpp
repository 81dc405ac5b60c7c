#include <array>
#include <deque>
#include <limits>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_table.hpp"

// Schedules in V placement made of one building block (Qi et al. 2024, "Pipeline Parallelism with
// Controllable Memory"). The block says when, in units of one F, I or W of a chunk, each rank runs
// a microbatch; the next microbatch follows six units later, as it has six parts on every rank. How
// long a microbatch stays in flight in the block sets the memory. Times of blocks are those of the
// authors' implementation; where W go, and how a block is squeezed at both ends, is our own.
namespace shardsim {

namespace {

// When the first microbatch runs on one rank: F of the chunk going down, F going up, I going up,
// I going down.
using BlockTimes = std::array<int, 4>;

constexpr int kInterval = 6;  // F, I and W of two chunks.

// The four streams of a block, in the order in which a microbatch passes them.
struct Stream {
  bool forward;
  int chunk;
};
constexpr std::array<Stream, 4> kStreams = {
    {{true, kDown}, {true, kUp}, {false, kUp}, {false, kDown}}};

// How many microbatches have passed each of a rank's streams.
using Passed = std::array<int, 4>;

// The order of F and I on every rank is that of the blocks. It is run unit by unit: a rank runs the
// next of them as soon as its input is there, an F only while the rank holds fewer than `most_held`
// activations (of one chunk and microbatch), and otherwise the oldest W, if one was put off.
// REQUIRES: two chunks; blocks that collide nowhere; most_held at least what they hold themselves.
class BlockPlayer {
 public:
  BlockPlayer(const PipelineShape& shape, const std::vector<BlockTimes>& blocks, int most_held)
      : microbatches_(shape.num_microbatches),
        last_rank_(shape.num_ranks - 1),
        blocks_(blocks),
        most_held_(most_held),
        passed_(blocks.size(), Passed{}),
        put_off_(blocks.size()) {
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) rows_.emplace_back(shape);
  }

  std::vector<std::vector<Action>> play() {
    int cells_left = kInterval * microbatches_ * (last_rank_ + 1);
    while (cells_left > 0) {
      const std::vector<Passed> before = passed_;  // Outputs of a unit arrive in the next.
      int moved = 0;
      for (int rank = 0; rank <= last_rank_; ++rank) moved += step(rank, before) ? 1 : 0;
      if (moved == 0) {
        throw Error(ExitCode::internal, "E7005", "the blocks of a pipeline schedule do not fit",
                    "please report the schedule and its shape");
      }
      cells_left -= moved;
    }
    std::vector<std::vector<Action>> actions;
    for (RowBuilder& row : rows_) actions.push_back(row.take());
    return actions;
  }

 private:
  // One unit of a rank; false if it is idle.
  bool step(int rank, const std::vector<Passed>& before) {
    const int next = next_stream(rank);
    if (next >= 0 && is_ready(rank, next, before)) {
      ++passed_[index_of(rank)].at(index_of(next));
      const auto [forward, chunk] = kStreams.at(index_of(next));
      if (forward) {
        rows_[index_of(rank)].forward(chunk);
      } else {
        rows_[index_of(rank)].backward_input(chunk);
        put_off_[index_of(rank)].push_back(chunk);
      }
      return true;
    }
    std::deque<int>& put_off = put_off_[index_of(rank)];
    if (put_off.empty()) return false;
    rows_[index_of(rank)].backward_weight(put_off.front());
    put_off.pop_front();
    return true;
  }

  // The stream whose turn it is in the block's order; -1 after the end.
  [[nodiscard]] int next_stream(int rank) const {
    int first = -1;
    int earliest = std::numeric_limits<int>::max();
    for (int stream = 0; stream < static_cast<int>(kStreams.size()); ++stream) {
      const int microbatch = passed_[index_of(rank)].at(index_of(stream));
      if (microbatch == microbatches_) continue;
      const int time = blocks_[index_of(rank)].at(index_of(stream)) + kInterval * microbatch;
      if (time >= earliest) continue;
      earliest = time;
      first = stream;
    }
    return first;
  }

  [[nodiscard]] bool is_ready(int rank, int stream, const std::vector<Passed>& before) const {
    const auto [forward, chunk] = kStreams.at(index_of(stream));
    if (forward && held(rank) >= most_held_) return false;
    const int microbatch = passed_[index_of(rank)].at(index_of(stream));
    // It comes down in streams 0 and 2 and goes up in 1 and 3; at the turns, from the one before.
    const bool from_above = stream % 2 == 0;
    const int source = from_above ? rank - 1 : rank + 1;
    if (source >= 0 && source <= last_rank_) {
      return before[index_of(source)].at(index_of(stream)) > microbatch;
    }
    return stream == 0 || before[index_of(rank)].at(index_of(stream - 1)) > microbatch;
  }

  [[nodiscard]] int held(int rank) const {
    const RowBuilder& row = rows_[index_of(rank)];
    int held = 0;
    for (const int chunk : {kDown, kUp}) {
      held += row.forwards(chunk) - row.backward_inputs(chunk) + row.pending_weights(chunk);
    }
    return held;
  }

  int microbatches_;
  int last_rank_;
  const std::vector<BlockTimes>& blocks_;
  int most_held_;
  std::vector<Passed> passed_;
  std::vector<std::deque<int>> put_off_;  // By rank: chunks of I whose W is to come.
  std::vector<RowBuilder> rows_;
};

}  // namespace

// V-Half: 1F1B's throughput in half its memory, about. In its block a microbatch goes down at two
// units per rank and up at one, forward and backward; three units are inserted in the middle where
// p is even, as the streams would collide.
//
// Memory: a microbatch's two stays on a rank add up to 6p units or a few more, at six units per
// microbatch p chunks, and there are one or two more at the ends of the stays: 2 (floor(p/2) + 1)
// chunks, floor(p/2) + 1 microbatches, on the worst rank. p/2 is the limit for large p.
// Idle: with F = I = W of a chunk the squeezed schedule waits 3(p-1) of them, one less for odd p:
// half of 1F1B's (p-1)(F+B), which is 6(p-1). Found by tests for all p up to 16; for other ratios
// there is no formula. Cross-rank boundaries: 2(p-1). Needs M >= 2p-1.
std::vector<std::vector<Action>> v_half(const PipelineShape& shape) {
  const int p = shape.num_ranks;
  const int inserted = p % 2 == 0 ? 3 : 0;
  std::vector<BlockTimes> blocks;
  for (int r = 0; r < p; ++r) {
    blocks.push_back(
        {2 * r, 3 * p - r - 2, 3 * p + inserted + 2 * r - 1, 6 * p + inserted - r - 2});
  }
  return BlockPlayer(shape, blocks, 2 * (p / 2 + 1)).play();
}

// V-Min: the least memory that a V placement allows. In its block a microbatch goes down and up and
// down and up at one unit per rank, without a pause but for two units in the middle where 3 divides
// p, as the streams would collide.
//
// Memory: a microbatch's two stays on a rank add up to 4p units, at six units per microbatch 2p/3
// chunks, and there are one or two more at the ends of the stays: 2 (floor((p+1)/3) + 1) chunks,
// floor((p+1)/3) + 1 microbatches, on the worst rank. p/3 is the limit for large p.
// Idle: with F = I = W of a chunk the squeezed schedule waits 4(p-1) of them, one less or, where 3
// divides p, one more: two thirds of 1F1B's (p-1)(F+B), which is 6(p-1). Found by tests for all p
// up to 16; for other ratios there is no formula, and any imbalance of F, I and W costs idle time
// in every microbatch. Cross-rank boundaries: 2(p-1). Needs M >= 2p-1.
std::vector<std::vector<Action>> v_min(const PipelineShape& shape) {
  const int p = shape.num_ranks;
  const int inserted = p % 3 == 0 ? 2 : 0;
  std::vector<BlockTimes> blocks;
  for (int r = 0; r < p; ++r) {
    blocks.push_back({r, 2 * p - r - 1, 2 * p + inserted + r, 4 * p + inserted - r - 1});
  }
  return BlockPlayer(shape, blocks, 2 * ((p + 1) / 3 + 1)).play();
}

}  // namespace shardsim
