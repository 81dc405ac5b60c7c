#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// What is left to be summed when data-parallel reductions have ended, in this order:
/// - gradients of which each tensor-parallel rank has a part only (norms and row biases under
///   sequence parallelism), over the tensor-parallel group, all in one call;
/// - gradients of tied embeddings, over first and last stage.
/// Works on what the rank owns, after reduction: as little as there is. Offloaded gradients come
/// over the host link and go back, the former in one transfer each way, straight into and out of
/// the buffer that is summed; of the latter one piece at a time is on the device. Source: the order
/// of Megatron-LM's finalize_model_grads.
void sum_over_model_parallel(Runtime& runtime, Mesh& mesh, const Model& model,
                             const GradientSync& sync);

}  // namespace shardsim
