#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/kernel/narrow_float.hpp"

#include "backends/communicator.hpp"

#include "strategies/model/layer.hpp"

// Products of linear layers in 8 or 4 bits. A tensor is quantized: its elements are rounded to the
// narrow type, times a scale for the whole tensor or for each block of elements. All three products
// of a layer read quantized tensors, and write 16 bits. The sums run over different dimensions:
//
//   forward   y  = x W^T     over inputs:  rows of x, rows of W
//   backward  dx = dy W      over outputs: rows of dy, columns of W
//             dW = dy^T x    over tokens:  columns of dy, columns of x
//
// so that a tensor with blocks, which lie along that dimension, has two copies, for rows and for
// columns. With a scale for the whole tensor one copy serves both, but for products that read both
// operands along the sum (Hopper): these need a transposed one.
// Attention, norms, the router, embeddings and the head stay in ModelOptions::dtype.
//
// With data the bytes of quantized tensors are what they are on a device (quantized_data.hpp), so
// ranks may send them, and a device and its ranks quantize to the same bits. A scale for a whole
// tensor is that of all its parts: ranks that have one each agree on the largest element. The parts
// of a batch are tensors of their own: those of another microbatch or data-parallel rank.
// Sources: Micikevicius et al., "FP8 Formats for Deep Learning" (2022); DeepSeek-AI, "DeepSeek-V3
// Technical Report" (2024), section 3.3; NVIDIA/TransformerEngine at d0067d0d, common/recipe.
namespace shardsim {

/// How the scales of quantized tensors are found.
enum class ScalingRecipe : std::uint8_t { none, delayed, tensorwise, blockwise, mxfp8, nvfp4 };

struct RecipeRow {
  const char* name;          ///< As scenarios write it.
  DType dtype;               ///< That of the products' operands.
  std::int64_t block;        ///< Elements that share a scale; 0: all of the tensor.
  std::int64_t scale_bytes;  ///< Those of each block's scale.
  std::int64_t weight_rows;  ///< Rows of a weight that share their scales.
  bool reads_for_scale;      ///< The tensor is read for its largest element ahead of the cast.
  bool scales_on_cores;      ///< Scales of blocks are applied outside of tensor cores.
  bool widens_gradients;     ///< Gradients are e5m2: "hybrid".
  /// A Hadamard transform comes between a tensor and its cast for gradients of weights.
  bool transforms;
  bool rounds_by_chance;  ///< Gradients are rounded up or down by chance.
  std::int64_t tile;      ///< Blocks of a weight's tile of so many rows and columns share a scale.

  /// Bytes of a quantized row of `width` elements, with its scales.
  [[nodiscard]] constexpr std::int64_t row_bytes(std::int64_t width) const {
    return code_bytes(width) + scales_of_row(width);
  }
  [[nodiscard]] constexpr std::int64_t code_bytes(std::int64_t elements) const {
    return (elements * element_bits(dtype) + 7) / 8;
  }
  /// Whether scales of blocks are in few bits, with another scale for the whole tensor.
  [[nodiscard]] constexpr bool has_two_levels() const { return block > 0 && reads_for_scale; }
  /// Whether the codes of a weight are those of its transpose.
  [[nodiscard]] constexpr bool is_square() const { return block == 0 || weight_rows == block; }
  [[nodiscard]] constexpr std::int64_t scales_of_row(std::int64_t width) const {
    return block == 0 ? 0 : (width + block - 1) / block * scale_bytes;
  }
  /// Bytes of a quantized copy of a weight [rows, width].
  [[nodiscard]] constexpr std::int64_t weight_bytes(std::int64_t rows, std::int64_t width) const {
    const std::int64_t scales = scales_of_row(width);
    const std::int64_t scale_rows = (rows + weight_rows - 1) / weight_rows;
    return rows * (row_bytes(width) - scales) + scale_rows * scales;
  }
  /// So many rows that blocks along them are whole.
  [[nodiscard]] constexpr std::int64_t filled(std::int64_t rows) const {
    return block == 0 ? rows : (rows + block - 1) / block * block;
  }
};

/// All recipes, in the order of the enumeration; of `none` nothing is read.
[[nodiscard]] std::span<const RecipeRow> all_recipes();
[[nodiscard]] const RecipeRow& row_of(ScalingRecipe recipe);

// With `delayed`: which elements of a tensor's history its scale is of, and after what the history
// grows.
enum class AmaxCompute : std::uint8_t { most_recent, max };
enum class AmaxUpdate : std::uint8_t { step, microbatch };

/// The linear layers of a model that are in low precision.
struct LowPrecision {
  ScalingRecipe recipe = ScalingRecipe::none;
  bool needs_transposes = false;  ///< Products read both operands along the sum.
  bool keeps_codes = false;       ///< Weights are codes where they lie: no cast makes them.
  int blocks_at_start = 0;        ///< So many blocks stay as they are,
  int blocks_at_end = 0;          ///< and so many of the last.
  std::int64_t amax_history_len = 1;
  AmaxCompute amax_compute = AmaxCompute::most_recent;
  AmaxUpdate amax_update = AmaxUpdate::step;

  /// Whether a block of `num_blocks` is in low precision. Those of multi-token prediction, which
  /// come behind them, are.
  [[nodiscard]] bool takes(int block, int num_blocks) const {
    const bool is_first = block < blocks_at_start;
    const bool is_last = block < num_blocks && block >= num_blocks - blocks_at_end;
    return recipe != ScalingRecipe::none && !is_first && !is_last;
  }
  /// Whether the columns of a tensor are a copy of their own.
  [[nodiscard]] bool has_two_copies() const { return row_of(recipe).block > 0 || needs_transposes; }
};

/// A quantized tensor [.., row_bytes], as bytes: its type is fp8_e4m3, whatever the recipe's. Its
/// copies may be the same, or undefined where nobody reads them.
struct QuantizedTensor {
  Tensor rows;
  Tensor columns;
};

[[nodiscard]] inline bool is_quantized(const Tensor& tensor) {
  return tensor.defined() && tensor.dtype() == DType::fp8_e4m3;
}

/// The copies of a tensor that are made.
enum class Copies : std::uint8_t { both, rows, columns };

/// Tensors are quantized to the format of their kind.
enum class Operand : std::uint8_t { value, gradient };
[[nodiscard]] const NarrowFormat& format_of(ScalingRecipe recipe, Operand operand);

/// An operand of a linear layer.
enum class OperandKind : std::uint8_t { input, weight, gradient };
struct OperandSite {
  /// Number of the weight. Several layers may read an input: then of the first parameter of their
  /// branch.
  int parameter = -1;
  OperandKind kind = OperandKind::input;
};

class DelayedScales;   // strategies/model/delayed_scales.hpp
struct ElementPlaces;  // strategies/model/element_chance.hpp

/// The groups of ranks that have parts of a tensor each; null: this rank has all.
struct ScaleGroups {
  Communicator* tensor = nullptr;
  Communicator* context = nullptr;
};

/// The kernel that wrote a tensor: a norm's may find its largest element (KernelFamily).
enum class Written : std::uint8_t { by_others, by_norm };

struct CastOptions {
  Operand operand = Operand::value;
  OperandSite site = {};                  ///< For recipes that know tensors by their place.
  DelayedScales* delayed = nullptr;       ///< The scales, with the recipe `delayed` and data.
  const ElementPlaces* places = nullptr;  ///< For elements that are rounded by chance.
  ScaleGroups groups = {};
  Written by = Written::by_others;
  /// Rows of x that are tensors of their own: how many each has. Empty: x is one.
  std::span<const std::int64_t> runs = {};
};

/// x [.., k] -> quantized. One kernel makes all copies; tensorwise, one more reads x for its
/// scales, and the groups agree on them. Throws UsageError E0680 where there is data, and a
/// recipe that needs the past or the places of elements does not have them.
[[nodiscard]] QuantizedTensor quantize(Runtime& runtime, const LowPrecision& low, const Tensor& x,
                                       Copies copies, const CastOptions& options = {});

/// Rows that were quantized, [.., row_bytes] -> [.., width] in `dtype`. One kernel.
[[nodiscard]] Tensor dequantize(Runtime& runtime, const LowPrecision& low, const Tensor& rows,
                                std::int64_t width, DType dtype, Operand operand = Operand::value);

/// Columns of a tensor whose rows other ranks quantized: a transposed copy.
[[nodiscard]] Tensor transposed(Runtime& runtime, const Tensor& rows);

}  // namespace shardsim
