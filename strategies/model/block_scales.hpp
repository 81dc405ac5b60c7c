#pragma once

#include <cstddef>
#include <cstdint>

#include "strategies/model/low_precision.hpp"

// Scales of blocks, as they lie among the bytes of a quantized tensor.
namespace shardsim {

/// The factor of a tensor with this largest element ahead of its cast. With scales of two levels it
/// makes the scales of blocks e4m3. Source: Transformer Engine,
/// compute_scale_from_amax (common/recipe/recipe_common.cuh) and
/// compute_global_encode_scaling_factor_FP4 (common/cast/nvfp4/core_nvfp4.cuh).
[[nodiscard]] float multiplier_of(float largest, const RecipeRow& recipe,
                                  const NarrowFormat& format);

/// The scale of one block.
struct BlockScale {
  float multiplier;      ///< That of elements, ahead of their cast.
  std::uint32_t stored;  ///< Its lowest RecipeRow::scale_bytes bytes.
};
/// `of_all`: the tensor's multiplier, with scales of two levels. REQUIRES: recipe.block > 0.
[[nodiscard]] BlockScale scale_of_block(float largest, const RecipeRow& recipe,
                                        const NarrowFormat& format, float of_all);
void write_scale(std::byte* at, const RecipeRow& recipe, const BlockScale& scale);
/// The factor of an element's code. `of_all`: the tensor's.
[[nodiscard]] double read_scale(const std::byte* at, const RecipeRow& recipe, double of_all);

}  // namespace shardsim
