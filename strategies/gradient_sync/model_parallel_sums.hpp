#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// Sums that are left when data-parallel reductions have ended, in this order:
/// - gradients that each tensor-parallel rank has only in part (norms and row biases under sequence
///   parallelism), over the tensor-parallel group, all in one call;
/// - those of key and value heads that several of its ranks have copies of, over these ranks, all
/// in
///   one call;
/// - gradients of tied embeddings, over first and last stage.
/// It works on gradients that the rank owns after reduction: as few as possible. Offloaded
/// gradients cross the host link both ways. The former take one transfer each way, straight into
/// and out of the buffer that is summed; the latter go one piece at a time. Source: the order of
/// Megatron-LM's finalize_model_grads.
void sum_over_model_parallel(Runtime& runtime, Mesh& mesh, const Model& model,
                             const GradientSync& sync);

}  // namespace shardsim
