#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/hardware/sourced_number.hpp"

// The measured constants of a GPU's kernels, which lie in sim/hardware/kernels/gpus/*.json, each
// with its source. tests/validation/fit_kernels.py fits those that are fitted, once for all shapes
// (docs/decisions/0032-kernel-cost.md).
namespace shardsim {

/// A library of fused attention, whose kernels a GPU runs.
enum class AttentionLibrary : std::uint8_t { flash2, flash3, cudnn };
inline constexpr std::size_t kAttentionLibraries = 3;

/// One direction of a library's fused attention.
struct AttentionPass {
  SourcedNumber rate;  ///< Share of the peak for endless heads and sequences;
  /// share of the time of the longest block of queries that is added: others have ended before it;
  SourcedNumber tail;
  /// at heads of this size, or this many keys, half of the rate.
  SourcedNumber head_halving;
  SourcedNumber keys_halving;
};

/// Rates are 0 where the GPU has no rows of the library.
struct AttentionKernels {
  AttentionPass forward;
  AttentionPass backward;
};

/// Seconds, bytes and plain shares; rates are shares of the peak of the device they are used with.
struct KernelConstants {
  const char* name;  ///< As scenarios write it.

  SourcedNumber multiprocessors;
  /// Share of the peak in the inner loop of an endless tile.
  SourcedNumber matmul_rate;
  /// A tile of t_m x t_n runs at 1 / (1 + this (1/t_m + 1/t_n)) of that.
  SourcedNumber tile_halving;
  /// Seconds that a tile takes beside its inner loop, and share of the writing of its results that
  /// hides behind nothing.
  SourcedNumber tile_overhead_s;
  SourcedNumber epilogue_exposed;
  /// Share of the rate where rows of an operand do not begin at multiples of 16 bytes.
  SourcedNumber unaligned_share;

  /// By AttentionLibrary.
  std::array<AttentionKernels, kAttentionLibraries> attention;

  /// Share of these rates that products and attention keep in a long run, whose power is limited:
  /// tables of single kernels are bursts.
  SourcedNumber sustained_share;

  /// Shares of their own peak that products in fewer bits reach, over that of products in 16 bits;
  /// 0: the GPU has none. fp8_block: with a scale for each block of elements.
  SourcedNumber fp8_share;
  SourcedNumber fp8_block_share;
  SourcedNumber fp4_share;

  /// Shares of the memory's bandwidth.
  SourcedNumber permutation_share;
  SourcedNumber cross_entropy_share;
  SourcedNumber amax_share;
  SourcedNumber quantize_share;
  SourcedNumber delta_rule_share;

  /// The slowdown of computing, as a share of the time in which a communication runs beside it.
  SourcedNumber beside_communication;

  /// Whether the GPU has rows of it.
  [[nodiscard]] bool has(AttentionLibrary library) const {
    return attention_of(library).forward.rate.value > 0.0;
  }
  /// `wanted`, or the first of cudnn, flash3 and flash2 that the GPU has, where it lacks `wanted`.
  [[nodiscard]] AttentionLibrary library_for(AttentionLibrary wanted) const;
  [[nodiscard]] const AttentionKernels& attention_of(AttentionLibrary library) const {
    return attention.at(static_cast<std::size_t>(library));
  }
};

/// A constant with the name it has in reports.
struct NamedConstant {
  const char* name;
  SourcedNumber number;
  /// The library of fused attention that it belongs to; none: it is of other kernels.
  std::optional<AttentionLibrary> library = std::nullopt;
};
inline constexpr std::size_t kKernelConstants = 40;
[[nodiscard]] std::array<NamedConstant, kKernelConstants> constants_of(const KernelConstants& of);

/// Null if there is none of that name.
[[nodiscard]] SourcedNumber* find_constant(KernelConstants& in, std::string_view name);

/// All constants, in the order of their names.
[[nodiscard]] std::span<const KernelConstants> all_kernel_constants();
/// "flash2".
[[nodiscard]] std::string_view name_of(AttentionLibrary library);
/// None if there is none of that name.
[[nodiscard]] std::optional<AttentionLibrary> find_attention_library(std::string_view name);
/// Null if there is none of that name.
[[nodiscard]] const KernelConstants* find_kernel_constants(std::string_view name);

/// Compute capability as major.minor (9.0), by which programs choose their kernels. No price reads
/// it. REQUIRES: the name of one of all_kernel_constants().
[[nodiscard]] SourcedNumber compute_capability_of(std::string_view name);

}  // namespace shardsim
