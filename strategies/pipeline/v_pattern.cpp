#include "strategies/pipeline/v_pattern.hpp"

#include <deque>
#include <limits>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/index_of.hpp"
#include "strategies/pipeline/row_builder.hpp"

namespace shardsim {

namespace {

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

std::vector<std::vector<Action>> rows_of_blocks(const PipelineShape& shape,
                                                const std::vector<BlockTimes>& blocks,
                                                int most_held) {
  return BlockPlayer(shape, blocks, most_held).play();
}

}  // namespace shardsim
