#pragma once

#include "backends/runtime.hpp"

#include "strategies/mesh.hpp"

// The parts of a global gradient norm: squares of what a rank owns, summed over what it does not.
namespace shardsim {

/// Σ x² of `values`, read as one memory-bound operation; 0 without data.
[[nodiscard]] double sum_of_squares(Runtime& runtime, const Tensor& values);

/// Sum of a scalar over the shard axis, on every rank of it. Posts nothing on an axis of one rank.
[[nodiscard]] double sum_over_shards(Runtime& runtime, Mesh& mesh, double value);

}  // namespace shardsim
