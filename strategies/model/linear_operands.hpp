#pragma once

#include <cstdint>
#include <span>

#include "strategies/model/low_products.hpp"

// Operands of linear layers' products: tensors and weights, quantized where a pass says so.
namespace shardsim {

struct ModelContext;  // strategies/model/parameter.hpp
struct Pass;          // strategies/model/pass.hpp

/// How a step casts parameter `index`, whose value is `weight`.
[[nodiscard]] CastOptions weight_cast(const ModelContext& context, int index, const Tensor& weight);

/// Weight k of products in low precision: [n, k], or [E, n, k] of experts.
struct LinearWeight {
  Tensor weight;
  LowProduct product;
  QuantizedTensor made = {};  ///< Its copies: undefined where a part of a step is priced.
};
/// `read`: the copies that are read. REQUIRES: pass.low.
[[nodiscard]] LinearWeight quantized_weight(const Pass& pass, int k, Copies read);

/// The part of a tensor that a rank of a tensor-parallel group has: others agree on its scale.
enum class Held : std::uint8_t {
  whole,            ///< Each rank has it.
  tokens,           ///< A share of the tokens with sequence parallelism, else all.
  norm_output,      ///< The same, as a norm wrote it.
  channels,         ///< A share of the heads or channels: it is in a region.
  apart,            ///< Rows of experts, each as long as it is,
  expert_channels,  ///< or a share of its channels.
};

/// A tensor that linear layers read, or the gradient of what one made.
struct LinearOperand {
  /// Number of the layer's weight; of an input that several read, of its branch's first parameter.
  int k;
  Held held;
  /// Rows that are quantized as tensors of their own: those of each expert. Empty: a microbatch's.
  std::span<const std::int64_t> runs = {};
  std::span<const std::uint64_t> run_keys = {};  ///< ElementPlaces::runs of a gradient.
};

/// The tensor that a linear layer reads: x's rows, quantized where pass.low says so. In `columns`
/// stays what its weight's gradient reads; x itself, if nothing is quantized.
[[nodiscard]] Tensor linear_input(const Pass& pass, Tensor x, Tensor& columns,
                                  const LinearOperand& place);
/// The same in place, for a tensor that nothing else reads: x becomes what stays.
[[nodiscard]] Tensor linear_input(const Pass& pass, Tensor& x, const LinearOperand& place);
/// The columns of x, made again for backward. Nothing is made of what is quantized already.
void make_columns(const Pass& pass, Tensor& x, const LinearOperand& place);

/// Gradient [.., n] of a linear layer's output, for both of its products.
struct LinearGradient {
  Tensor rows;               ///< For the input's gradient,
  Tensor columns;            ///< and for the weight's: the same where nothing is quantized.
  std::int64_t outputs = 0;  ///< n
};
[[nodiscard]] LinearGradient linear_gradient(const Pass& pass, const Tensor& dy,
                                             const LinearOperand& place);
/// Copies of either. REQUIRES: pass.low.
[[nodiscard]] QuantizedTensor quantized(const Pass& pass, const Tensor& x, Copies copies,
                                        Operand operand, const LinearOperand& place);

}  // namespace shardsim
