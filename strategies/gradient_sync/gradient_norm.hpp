#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

// What is known of all gradients together. The parts of their global norm: squares of what a rank
// owns, summed over those who own the rest. Every gradient counts once: one that all
// tensor-parallel ranks have, on the first of them, a tied one on the first stage.
namespace shardsim {

/// Whether this rank's copy of a parameter is the one that counts in sums over ranks (and the one
/// that a checkpoint keeps).
[[nodiscard]] bool is_main_copy(const ParameterSpec& spec, const MeshPlace& place);

/// Σ x² of the gradients that count among `values`, elements [begin, begin + values.numel()) of a
/// chunk; read as one memory-bound operation. 0 without data.
[[nodiscard]] double sum_of_squares(Runtime& runtime, const SyncPlan& plan, const Mesh& mesh,
                                    int chunk, std::int64_t begin, const Tensor& values);

/// Sum of a scalar over all ranks that own different gradients: the shards, if `sharded`, the
/// tensor-parallel ranks and the stages. The same on each of them. Posts nothing on axes of one
/// rank.
[[nodiscard]] double sum_over_owners(Runtime& runtime, Mesh& mesh, bool sharded, double value);

/// Whether an element is infinite or NaN; read as one memory-bound operation. False without data.
[[nodiscard]] bool has_non_finite(Runtime& runtime, const Tensor& values);
/// Whether that is so on any of the ranks of sum_over_owners: their maximum.
[[nodiscard]] bool any_of_owners(Runtime& runtime, Mesh& mesh, bool sharded, bool found);

}  // namespace shardsim
