#pragma once

#include <cstdint>

// Sizes of the mixers that are recurrences: gated DeltaNet and Mamba-2.
namespace shardsim {

struct ModelOptions;

struct DeltaNetOptions {
  std::int64_t key_heads = 0;    ///< n_k
  std::int64_t value_heads = 0;  ///< n_v, a multiple of n_k.
  std::int64_t key_size = 0;     ///< d_k
  std::int64_t value_size = 0;   ///< d_v
  std::int64_t conv_kernel = 4;  ///< Positions that the convolution reads.

  friend bool operator==(const DeltaNetOptions&, const DeltaNetOptions&) = default;
};

struct MambaOptions {
  std::int64_t num_heads = 0;     ///< n_m
  std::int64_t head_size = 0;     ///< p
  std::int64_t num_groups = 1;    ///< G, divides n_m.
  std::int64_t state_size = 0;    ///< N
  std::int64_t conv_kernel = 4;   ///< Positions that the convolution reads.
  std::int64_t chunk_size = 128;  ///< C; what is computed does not depend on it.
  bool has_norm = true;           ///< Behind the gate of what the scan returns.
  /// Factors of what the projection makes, part by part: the gate z, x, B, C and dt'.
  double z_scale = 1.0;
  double x_scale = 1.0;
  double b_scale = 1.0;
  double c_scale = 1.0;
  double dt_scale = 1.0;
  double output_scale = 1.0;  ///< Factor of its output.

  [[nodiscard]] bool scales_projection() const {
    return z_scale != 1.0 || x_scale != 1.0 || b_scale != 1.0 || c_scale != 1.0 || dt_scale != 1.0;
  }

  friend bool operator==(const MambaOptions&, const MambaOptions&) = default;
};

/// Throws UsageError, with the values, unless the sizes of the mixers that blocks have fit together
/// and are divisible among tensor-parallel ranks, and among those that share a sample's positions.
void require_linear_mixers(const ModelOptions& options);

}  // namespace shardsim
