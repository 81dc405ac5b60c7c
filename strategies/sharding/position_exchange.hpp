#pragma once

#include <cstdint>

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

#include "strategies/model/columns.hpp"
#include "strategies/model/head_slices.hpp"

// Positions for heads, for layers that must see a sample from its beginning to its end: c ranks
// that have all heads of some positions each become ranks with some heads of all positions each, by
// an all_to_all, and back by another. The order of shares (SequencePart) is undone in between. A
// rank sends (c-1)/c of its columns for each of its tokens, those of sections of fewer parts once
// for each rank that has a copy.
// Sources: Jacobs et al., "DeepSpeed Ulysses" (2023); Megatron-LM, mamba_context_parallel.py.
namespace shardsim {

class PositionExchange {
 public:
  /// `seq_len`: of whole samples. `sections`: of a rank's columns, side by side. All must outlive
  /// it.
  PositionExchange(Runtime& runtime, Communicator& group, std::int64_t seq_len,
                   const HeadSlices& sections)
      : runtime_(runtime), group_(group), seq_len_(seq_len), sections_(sections) {}

  /// x: all columns of rows [b, s / c] -> [b, s, columns of this rank's heads].
  [[nodiscard]] Tensor to_heads(const Columns& x, const char* label) const;
  /// The way back, from y [b, s, columns of this rank's heads]: writes all columns of `x`, those of
  /// sections of which several ranks have copies as their sum. Each way is the other's gradient.
  void to_positions(const Tensor& y, const Columns& x, const char* label) const;

 private:
  [[nodiscard]] int ranks() const { return group_.size(); }
  [[nodiscard]] Tensor allocate_message(std::int64_t rows, DType dtype) const;
  // Visits each element of a message, as (place in it, row and column of x).
  template <class Visit>
  void for_each_of_positions(const Columns& x, Visit&& visit) const;
  // The same, as (place in it, place in y).
  template <class Visit>
  void for_each_of_heads(std::int64_t rows, Visit&& visit) const;

  Runtime& runtime_;
  Communicator& group_;
  std::int64_t seq_len_;
  const HeadSlices& sections_;
};

}  // namespace shardsim
