#pragma once

#include <string>

#include "scenarios/formats/foreign_object.hpp"

// Sizes of features that no scenario can express, as words for a message: parameters, and FLOPs of
// a token's forward pass. They say which keys the file lacks where it does not tell a size.
//
// Multi-token prediction is left out. FLOPs count as those of layers here: 2 m n k for a product of
// matrices, of a step with a recurrence's state as well; norms, activations, softmaxes, depthwise
// convolutions and weighted means over a window count none.
namespace shardsim {

/// A sparse indexer: DeepSeek-V3.2's over positions, or DeepSeek-V4's over compressed keys.
[[nodiscard]] std::string indexer_size(ForeignObject& config);
/// The compressed keys and values of DeepSeek-V4, without its indexer.
[[nodiscard]] std::string compressed_attention_size(ForeignObject& config);
[[nodiscard]] std::string hyper_connections_size(ForeignObject& config);
[[nodiscard]] std::string hash_layers_size(ForeignObject& config);
[[nodiscard]] std::string grouped_output_size(ForeignObject& config);

[[nodiscard]] std::string kimi_delta_size(ForeignObject& config);
[[nodiscard]] std::string latent_gate_size(ForeignObject& config);
[[nodiscard]] std::string residual_attention_size(ForeignObject& config);
/// Experts between two projections: gated ones of Kimi-K3, and those of Nemotron-H.
[[nodiscard]] std::string projected_experts_size(ForeignObject& config);

[[nodiscard]] std::string lightning_size(ForeignObject& config);

/// Blocks of sizes of their own, as Nemotron-NAS has them: all of each.
[[nodiscard]] std::string own_blocks_size(ForeignObject& config);
// Gemma 4's: what they add to its other layers, or take from them.
[[nodiscard]] std::string layer_embeddings_size(ForeignObject& config);
[[nodiscard]] std::string shared_keys_size(ForeignObject& config);
[[nodiscard]] std::string parallel_experts_size(ForeignObject& config);
/// "": no layer shares keys, so none has such an MLP.
[[nodiscard]] std::string double_wide_size(ForeignObject& config);

}  // namespace shardsim
