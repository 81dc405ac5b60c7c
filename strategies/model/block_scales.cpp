#include "strategies/model/block_scales.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace shardsim {

namespace {

// A block's scale in e4m3 is a factor of the tensor's. One that rounds to 0 stands for zeros.
BlockScale scale_of_two_levels(float largest, const NarrowFormat& format, float of_all) {
  const float wanted = largest / static_cast<float>(format.largest) * of_all;
  const std::uint8_t code = to_narrow(static_cast<double>(wanted), kE4m3);
  const auto scale = static_cast<float>(from_narrow(code, kE4m3));
  return {scale > 0.0F ? of_all / scale : 0.0F, code};
}

}  // namespace

float multiplier_of(float largest, const RecipeRow& recipe, const NarrowFormat& format) {
  if (!(largest > 0.0F) || std::isinf(largest)) return 1.0F;
  double most = format.largest;
  if (recipe.has_two_levels()) most *= kE4m3.largest;
  const float multiplier = static_cast<float>(most) / largest;
  return std::isinf(multiplier) ? std::numeric_limits<float>::max() : multiplier;
}

// Powers of two make the multiplication exact. Source: Transformer Engine, Float8BlockScaling with
// power-of-two scales (the default), MXFP8BlockScaling and NVFP4BlockScaling.
BlockScale scale_of_block(float largest, const RecipeRow& recipe, const NarrowFormat& format,
                          float of_all) {
  if (recipe.has_two_levels()) return scale_of_two_levels(largest, format, of_all);
  if (recipe.scale_bytes == 1) {
    const std::uint8_t code = to_e8m0(largest / static_cast<float>(format.largest));
    return {static_cast<float>(1.0 / from_e8m0(code)), code};
  }
  const float multiplier = multiplier_of(largest, recipe, format);
  constexpr std::uint32_t kMantissa = 0x007FFFFFU;
  const auto power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(multiplier) & ~kMantissa);
  return {power, std::bit_cast<std::uint32_t>(1.0F / power)};
}

void write_scale(std::byte* at, const RecipeRow& recipe, const BlockScale& scale) {
  if (recipe.scale_bytes == 1) {
    *at = static_cast<std::byte>(scale.stored);
  } else {
    std::memcpy(at, &scale.stored, sizeof scale.stored);
  }
}

double read_scale(const std::byte* at, const RecipeRow& recipe, double of_all) {
  const auto code = static_cast<std::uint8_t>(*at);
  if (recipe.has_two_levels()) return from_narrow(code, kE4m3) * of_all;
  if (recipe.scale_bytes == 1) return from_e8m0(code);
  float inverse = 0.0F;
  std::memcpy(&inverse, at, sizeof inverse);
  return static_cast<double>(inverse);
}

}  // namespace shardsim
