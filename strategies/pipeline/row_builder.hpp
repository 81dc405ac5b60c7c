#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Private to strategies/pipeline: writes the row of a rank with two chunks, each of which runs its
// microbatches in order, so that only kind and chunk have to be said.
namespace shardsim {

/// Chunks in V placement: the one whose stages go down the ranks, and the one that comes up again.
inline constexpr int kDown = 0;
inline constexpr int kUp = 1;

class RowBuilder {
 public:
  explicit RowBuilder(const PipelineShape& shape) {
    constexpr std::size_t kMostCells = 6;  // F, I and W of two chunks.
    row_.reserve(kMostCells * static_cast<std::size_t>(shape.num_microbatches));
  }

  void forward(int chunk) { add(ActionKind::forward, chunk, forwards_); }
  /// REQUIRES: no W of that chunk is put off.
  void backward(int chunk) {
    add(ActionKind::backward, chunk, backwards_);
    ++weights_.at(static_cast<std::size_t>(chunk));
  }
  /// I, whose W is put off.
  void backward_input(int chunk) { add(ActionKind::backward_input, chunk, backwards_); }
  /// The W of the oldest I of that chunk that has none.
  void backward_weight(int chunk) { add(ActionKind::backward_weight, chunk, weights_); }
  /// An F and a B that overlap.
  void overlapped(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    row_.back().overlaps_next = true;
    backward(backward_chunk);
  }

  [[nodiscard]] int forwards(int chunk) const { return of(forwards_, chunk); }
  [[nodiscard]] int backward_inputs(int chunk) const { return of(backwards_, chunk); }
  /// I without W.
  [[nodiscard]] int pending_weights(int chunk) const {
    return of(backwards_, chunk) - of(weights_, chunk);
  }
  [[nodiscard]] std::vector<Action> take() { return std::move(row_); }

 private:
  using Counts = std::array<int, 2>;  // By chunk: the next microbatch.
  [[nodiscard]] static int of(const Counts& counts, int chunk) {
    return counts.at(static_cast<std::size_t>(chunk));
  }
  void add(ActionKind kind, int chunk, Counts& counts) {
    row_.push_back(make_action(kind, chunk, counts.at(static_cast<std::size_t>(chunk))++));
  }

  std::vector<Action> row_;
  Counts forwards_{};
  Counts backwards_{};
  Counts weights_{};
};

}  // namespace shardsim
