#pragma once

#include <cstdint>

#include "scenarios/scenario.hpp"

namespace shardsim {

/// Trainable parameters, exact. With h = hidden_size, f = ffn_hidden_size, L = num_layers,
/// V = vocab_size, P = max_position_embeddings, k = h x num_query_groups / num_attention_heads:
///   gpt2:  V h + P h + L (4 h^2 + 2 h f + 9 h + f) + 2 h     [+ V h if the embedding is not tied]
///   llama: V h + L (2 h^2 + 2 h k + 3 h f + 2 h) + h         [+ V h if the embedding is not tied]
///   of which a block with E experts of width m, S of them shared, has E h + 3 (E + S) m h in place
///   of 3 h f
///   mlp:   h f + f + (L - 1) (f^2 + f) + f V + V
/// gpt2 has biases and two layer norms of 2 h in each layer: 9 h + f = 4 h (norms) + 3 h (query,
/// key, value) + h (projection) + f (first linear) + h (second). Source: Radford et al. 2019 and
/// Touvron et al. 2023; tests/scenarios/preset_test.cpp compares it with published counts.
/// The ranges of the field table keep it within 64 bits. REQUIRES: a loaded scenario's model.
std::int64_t num_parameters(const ModelSpec& model);

}  // namespace shardsim
