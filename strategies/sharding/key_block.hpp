#pragma once

#include "strategies/model/attention.hpp"

// Keys and values of some positions as one message: rows of g heads of k and then of v,
// [b, s, 2 g d]. Their gradients have the same form.
namespace shardsim {

class KeyBlocks {
 public:
  /// Blocks for positions shape.keys.
  KeyBlocks(Runtime& runtime, const AttentionShape& shape)
      : runtime_(runtime),
        width_(shape.num_groups * shape.head_size),
        rows_(shape.batch * shape.keys.length(shape.seq_len)) {}

  /// Zeros. `blocks` of them, one after the other.
  [[nodiscard]] Tensor allocate(DType dtype, std::int64_t blocks = 1) const {
    return runtime_.allocate(MemoryCategory::comm, {blocks, rows_, 2 * width_}, dtype);
  }
  [[nodiscard]] Heads k_of(const Tensor& block) const { return {block, 2 * width_, 0}; }
  [[nodiscard]] Heads v_of(const Tensor& block) const { return {block, 2 * width_, width_}; }

  /// A new block, of k and v.
  [[nodiscard]] Tensor pack(const Heads& k, const Heads& v) const;
  /// k and v become the block's, or it is added to them.
  void unpack(const Tensor& block, const Heads& k, const Heads& v, bool adds) const;

 private:
  Runtime& runtime_;
  std::int64_t width_;
  std::int64_t rows_;
};

}  // namespace shardsim
