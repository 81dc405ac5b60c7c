#include "strategies/sharding/key_block.hpp"

#include <array>

#include "strategies/sharding/head_copies.hpp"

namespace shardsim {

Tensor KeyBlocks::pack(const Heads& k, const Heads& v) const {
  Tensor block = allocate(k.tensor.dtype());
  const std::array<HeadCopy, 2> copies = {
      {{.from = k, .to = k_of(block), .rows = rows_, .width = width_},
       {.from = v, .to = v_of(block), .rows = rows_, .width = width_}}};
  copy_heads(runtime_, "pack_keys_and_values", copies);
  return block;
}

void KeyBlocks::unpack(const Tensor& block, const Heads& k, const Heads& v, bool adds) const {
  const std::array<HeadCopy, 2> copies = {
      {{.from = k_of(block), .to = k, .rows = rows_, .width = width_},
       {.from = v_of(block), .to = v, .rows = rows_, .width = width_}}};
  copy_heads(runtime_, "unpack_key_and_value_gradients", copies, adds);
}

}  // namespace shardsim
