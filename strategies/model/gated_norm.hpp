#pragma once

#include "strategies/model/columns.hpp"

// RMS norm of the output of a linear-attention layer, gated by SiLU of a part of its input's
// projection. The gate stands behind the norm (gated DeltaNet) or ahead of it (Mamba-2).
// Sources: transformers, modeling_qwen3_next.py, Qwen3NextRMSNormGated; state-spaces/mamba,
// layernorm_gated.py, norm_before_gate true and false.
namespace shardsim {

struct GatedNorm {
  Tensor weight;           ///< [width], the same for all parts of a row; or [n], of a whole row.
  std::int64_t width = 0;  ///< A row of n elements has n / width parts, each with its own mean.
  double epsilon = 0.0;
  bool gate_first = false;  ///< y = N(o silu(z)) weight; else y = N(o) weight silu(z).
};

struct GatedNormOutput {
  Tensor y;           ///< Shape of o.
  Tensor statistics;  ///< [rows, n / width]: reciprocal roots, for backward beside o and z.
};

/// o [..., n], z of n columns.
[[nodiscard]] GatedNormOutput gated_norm_forward(Runtime& runtime, const GatedNorm& norm,
                                                 const Tensor& o, const Columns& z);

/// Returns do. Writes dz, adds to weight_gradient.
[[nodiscard]] Tensor gated_norm_backward(Runtime& runtime, const GatedNorm& norm, const Tensor& o,
                                         const Columns& z, const Tensor& statistics,
                                         const Tensor& dy, const Columns& dz,
                                         const Tensor& weight_gradient);

/// y = o silu(z), in o's shape: the gate without a norm, as Falcon-H1 has it.
[[nodiscard]] Tensor silu_gate_forward(Runtime& runtime, const Tensor& o, const Columns& z);
/// Returns do. Writes dz.
[[nodiscard]] Tensor silu_gate_backward(Runtime& runtime, const Tensor& o, const Columns& z,
                                        const Tensor& dy, const Columns& dz);

}  // namespace shardsim
