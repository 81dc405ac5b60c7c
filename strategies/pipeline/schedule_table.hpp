#pragma once

#include <utility>
#include <vector>

#include "strategies/pipeline/schedule_row.hpp"

// Private to strategies/pipeline: the functions that rows of the table of schedules name, and what
// they write rows with. A function returns the compute actions of one rank or, where ranks cannot
// be written down alone, of all. It is defined in the file named after it or after its kind, and
// may rely on the shape being one that its row allows.
namespace shardsim {

std::vector<Action> gpipe(const PipelineShape& shape, int rank);
std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int rank);
std::vector<Action> interleaved(const PipelineShape& shape, int rank);
std::vector<Action> combined(const PipelineShape& shape, int rank);
std::vector<Action> looped_bfs(const PipelineShape& shape, int rank);
int looped_bfs_sends_in_flight(const PipelineShape& shape);
std::vector<Action> zero_bubble_h1(const PipelineShape& shape, int rank);
std::vector<Action> zero_bubble_h2(const PipelineShape& shape, int rank);
std::vector<Action> zero_bubble_v(const PipelineShape& shape, int rank);
std::vector<std::vector<Action>> v_half(const PipelineShape& shape);
std::vector<std::vector<Action>> v_min(const PipelineShape& shape);
std::vector<Action> dualpipe_v(const PipelineShape& shape, int rank);

/// Chunks in V placement: the one whose stages go down the ranks, and the one that comes up again.
inline constexpr int kDown = 0;
inline constexpr int kUp = 1;

/// Writes the row of a rank each of whose chunks runs its microbatches in order, so that only kind
/// and chunk have to be said.
class RowBuilder {
 public:
  explicit RowBuilder(const PipelineShape& shape) : counts_(index_of(shape.num_chunks)) {
    constexpr std::size_t kMostCells = 3;  // F, I and W.
    row_.reserve(kMostCells * counts_.size() * index_of(shape.num_microbatches));
  }

  void forward(int chunk = 0) { add(ActionKind::forward, chunk, &Counts::forwards); }
  /// REQUIRES: no W of that chunk is put off.
  void backward(int chunk = 0) {
    add(ActionKind::backward, chunk, &Counts::backwards);
    ++counts_[index_of(chunk)].weights;
  }
  /// I, whose W is put off.
  void backward_input(int chunk = 0) { add(ActionKind::backward_input, chunk, &Counts::backwards); }
  /// The W of the oldest I of that chunk that has none.
  void backward_weight(int chunk = 0) { add(ActionKind::backward_weight, chunk, &Counts::weights); }
  /// An F and a B that overlap.
  void overlapped(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    row_.back().overlaps_next = true;
    backward(backward_chunk);
  }

  [[nodiscard]] int forwards(int chunk = 0) const { return counts_[index_of(chunk)].forwards; }
  [[nodiscard]] int backward_inputs(int chunk = 0) const {
    return counts_[index_of(chunk)].backwards;
  }
  /// I without W.
  [[nodiscard]] int pending_weights(int chunk = 0) const {
    return backward_inputs(chunk) - counts_[index_of(chunk)].weights;
  }
  [[nodiscard]] std::vector<Action> take() { return std::move(row_); }

 private:
  // The next microbatch of a chunk.
  struct Counts {
    int forwards = 0;
    int backwards = 0;
    int weights = 0;
  };
  void add(ActionKind kind, int chunk, int Counts::*next) {
    row_.push_back(make_action(kind, chunk, counts_[index_of(chunk)].*next));
    ++(counts_[index_of(chunk)].*next);
  }

  std::vector<Action> row_;
  std::vector<Counts> counts_;  // By chunk.
};

}  // namespace shardsim
