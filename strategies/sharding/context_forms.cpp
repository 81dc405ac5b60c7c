#include "strategies/sharding/context_forms.hpp"

#include <array>

namespace shardsim {

void copy_values(const HeadCopy& copy, bool adds) {
  for (std::int64_t row = 0; row < copy.rows; ++row) {
    const std::int64_t from = (copy.from_row + row) * copy.from.row_stride + copy.from.first;
    const std::int64_t to = (copy.to_row + row) * copy.to.row_stride + copy.to.first;
    for (std::int64_t i = 0; i < copy.width; ++i) {
      const double value = copy.from.tensor.get(from + i);
      copy.to.tensor.set(to + i, adds ? copy.to.tensor.get(to + i) + value : value);
    }
  }
}

void copy_heads(Runtime& runtime, const char* name, std::span<const HeadCopy> copies, bool adds) {
  std::int64_t bytes = 0;
  for (const HeadCopy& copy : copies) {
    bytes += copy.rows * copy.width *
             (size_of(copy.from.tensor.dtype()) + (adds ? 2 : 1) * size_of(copy.to.tensor.dtype()));
  }
  runtime.compute(memory_op(name, copies[0].to.tensor.dtype(), bytes), [&] {
    for (const HeadCopy& copy : copies) copy_values(copy, adds);
  });
}

Tensor KeyBlocks::pack(const Heads& k, const Heads& v) const {
  Tensor block = allocate(k.tensor.dtype());
  const std::array<HeadCopy, 2> copies = {
      {{.from = k, .to = k_of(block), .rows = rows_, .width = k_width_},
       {.from = v, .to = v_of(block), .rows = rows_, .width = v_width_}}};
  copy_heads(runtime_, "pack_keys_and_values", copies);
  return block;
}

void KeyBlocks::unpack(const Tensor& block, const Heads& k, const Heads& v, bool adds) const {
  const std::array<HeadCopy, 2> copies = {
      {{.from = k_of(block), .to = k, .rows = rows_, .width = k_width_},
       {.from = v_of(block), .to = v, .rows = rows_, .width = v_width_}}};
  copy_heads(runtime_, "unpack_key_and_value_gradients", copies, adds);
}

}  // namespace shardsim
