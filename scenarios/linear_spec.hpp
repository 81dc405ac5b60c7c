#pragma once

#include <cstdint>

#include "scenarios/model_spec.hpp"

// Sizes of the mixers that are recurrences, in closed form.
namespace shardsim {

/// Elements per token that the projection of a mixer makes: 2 n_k d_k + 2 n_v d_v + 2 n_v, and
/// 2 D + 2 G N + n_m with D = n_m p. 0 for a mixer that is no recurrence.
[[nodiscard]] std::int64_t projection_of(const ModelSpec& model, Mixer mixer);
/// Elements per token of what a recurrence returns: n_v d_v, D.
[[nodiscard]] std::int64_t output_of(const ModelSpec& model, Mixer mixer);

/// In one layer, without its norm: h (2 n_k d_k + 2 n_v d_v + 2 n_v) + w (2 n_k d_k + n_v d_v) +
/// 2 n_v + d_v + n_v d_v h, with w = linear_conv_kernel.
[[nodiscard]] std::int64_t delta_net_parameters(const ModelSpec& model);
/// In one layer, without its norm: h (2 D + 2 G N + n_m) + (w + 1) (D + 2 G N) + 3 n_m + D + D h,
/// with w = mamba_conv_kernel.
[[nodiscard]] std::int64_t mamba_parameters(const ModelSpec& model);

/// Whether degrees of tensor and context parallelism divide heads and groups of the mixers that
/// layers have.
[[nodiscard]] bool divides_mixers(const ModelSpec& model, std::int64_t tp, std::int64_t cp);

/// Bounds on elements per token and layer, for the mixer that needs most of them: kept for
/// backward, and sent by all ranks that share a sample's positions, of `cp`, in all passes.
[[nodiscard]] std::int64_t most_kept_by_mixers(const ModelSpec& model);
[[nodiscard]] std::int64_t most_sent_by_mixers(const ModelSpec& model, std::int64_t cp);

}  // namespace shardsim
