#pragma once

#include <cstdint>

#include "backends/runtime.hpp"

// How the inputs of a feed-forward's activation stay from forward to backward. In 8 bits they take
// half the memory of bf16; backward then reads rounded inputs, and an output that it makes again is
// made of them.
namespace shardsim {

enum class ActivationStore : std::uint8_t {
  same,  ///< As they were computed.
  /// e4m3 without a scale: saturates at 448, where PyTorch's cast gives NaN. Source: Megatron-LM at
  /// d98e8a64, activation_func_fp8_input_store.
  e4m3,
  /// e4m3, with a scale in fp32 for each 128 elements of a row. Source: DeepSeek-AI, "DeepSeek-V3
  /// Technical Report" (2024), section 3.3.3.
  blockwise,
};

/// Elements of a row that share a scale; 0: none has one.
[[nodiscard]] std::int64_t block_of(ActivationStore store);

/// x [.., f] becomes what stays, [.., bytes of a row]; nothing where `same` does or x is undefined.
/// One kernel. Throws UsageError E0681 where there is data and a block of f is not whole.
void narrow_to_stay(Runtime& runtime, ActivationStore store, Tensor& x);
/// The inverse, in `dtype`; nothing for an x that has been widened. One kernel.
void widen_to_read(Runtime& runtime, ActivationStore store, DType dtype, Tensor& x);

}  // namespace shardsim
