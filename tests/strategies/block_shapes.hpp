#pragma once

#include <string_view>
#include <vector>

#include "strategies/model/make_model.hpp"

// Activations, norms and the order of branches, as families of today put them together.
namespace shardsim::test {

inline const std::vector<const char*> kBlockShapes = {"gemma",    "olmo",    "command", "gpt-oss",
                                                      "nemotron", "granite", "gpt-j"};

/// `options` of a llama, in a shape of that list.
inline ModelOptions with_block_shape(ModelOptions options, std::string_view name) {
  if (name == "gemma") {
    options.activation.kind = Activation::geglu_tanh;
    options.norm_placement = NormPlacement::sandwich;
    options.norm_zero_centred = true;
    options.query_key_norm = QueryKeyNorm::per_head;
    options.embedding_scale = 4.0;
    options.final_logit_cap = 1.5;
    options.tied_embeddings = true;
  } else if (name == "olmo") {
    options.norm_placement = NormPlacement::post;
    options.norm_zero_centred = true;
    options.query_key_norm = QueryKeyNorm::whole;
  } else if (name == "command") {
    options.norm = NormKind::layer_without_bias;
    options.parallel_block = true;
    options.logit_scale = 0.25;
    options.tied_embeddings = true;
  } else if (name == "gpt-oss") {
    // Many values are beyond it, and none of a small model within a quotient's step of it.
    options.activation = {.kind = Activation::clamped_swiglu, .limit = 0.3};
    options.mlp_bias = true;
    options.query_key_value_bias = true;
    options.attention_out_bias = true;
  } else if (name == "nemotron") {
    options.activation.kind = Activation::squared_relu;
    options.norm = NormKind::layer;
    options.norm_zero_centred = true;
  } else if (name == "granite") {
    options.embedding_scale = 6.0;
    options.residual_scale = 0.5;
    options.logit_scale = 0.5;
  } else if (name == "gpt-j") {
    options.activation.kind = Activation::gelu_tanh;
    options.norm = NormKind::layer;
    options.parallel_block = true;
    options.mlp_bias = true;
    options.attention_out_bias = true;
    options.residual_scale = 0.5;
  }
  return options;
}

inline bool is_block_shape(std::string_view name) {
  for (const char* shape : kBlockShapes) {
    if (name == shape) return true;
  }
  return false;
}

/// Both lists, one behind the other.
inline std::vector<const char*> with_block_shapes(std::vector<const char*> names) {
  names.insert(names.end(), kBlockShapes.begin(), kBlockShapes.end());
  return names;
}

}  // namespace shardsim::test
