#pragma once

// Memory that the kernels of a framework keep from forward to backward, or need while they run,
// beyond ideal kernels.
namespace shardsim {

/// Bytes per element. All zero: every operation is one ideal kernel that stores nothing beside its
/// result.
struct FrameworkMemory {
  double score_bytes = 0.0;      ///< Kept of each score of attention, masked or not.
  double mask_bytes = 0.0;       ///< Kept of each element that has dropout in a block.
  double norm_kept_bytes = 0.0;  ///< Kept of each element of a block's RMS norm, beyond its input,
  /// and of the gated activation of a dense feed-forward, beyond its inputs.
  double activation_kept_bytes = 0.0;
  /// Beside each element of a weight whose gradient is computed, until that has been added.
  double apart_gradient_bytes = 0.0;
  /// Per logit, beside the logits themselves, which become their own gradient:
  double loss_kept_bytes = 0.0;      ///< from the loss's forward to the end of its backward,
  double loss_forward_bytes = 0.0;   ///< on top while its forward runs,
  double loss_backward_bytes = 0.0;  ///< and its backward.
  /// Outputs of experts are kept for the gradients of their weights. Else the weights multiply what
  /// the last product reads, and travel with the rows.
  bool keeps_expert_outputs = true;
};

}  // namespace shardsim
