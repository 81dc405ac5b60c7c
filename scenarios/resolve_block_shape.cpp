#include <algorithm>
#include <array>
#include <string>

#include "strategies/model/make_model.hpp"

#include "scenarios/resolve.hpp"

// Activations, norms, the order of branches, and factors: what the llama family has a choice of.
namespace shardsim {

namespace {

Activation usual_activation(ModelFamily family) {
  if (family == ModelFamily::mlp) return Activation::relu;
  return family == ModelFamily::gpt2 ? Activation::gelu_tanh : Activation::swiglu;
}

// A choice that the other families do not have.
struct ShapeChoice {
  const char* path;
  bool is_made;
  const char* what;
};

void refuse_shapes(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  const bool has_layer_norm = m.family == ModelFamily::gpt2;
  const NormKind usual = has_layer_norm ? NormKind::layer : NormKind::rms;
  const std::array<ShapeChoice, 11> choices = {{
      {"model.activation", m.activation != usual_activation(m.family), "choice of an activation"},
      {"model.mlp_bias", !m.mlp_bias, "MLPs without biases"},
      {"model.mlp_gate_scale", m.mlp_gate_scale != 1.0, "gates of MLPs to scale"},
      {"model.mlp_output_scale", m.mlp_output_scale != 1.0, "factor of its MLPs"},
      {"model.norm_kind", m.norm_kind != usual, "choice of its norms"},
      {"model.norm_placement", m.norm_placement != NormPlacement::pre, "choice of its norms"},
      {"model.norm_zero_centred", m.norm_zero_centred, "weights of norms that are centred on 0"},
      {"model.parallel_block", m.parallel_block, "branches beside each other"},
      {"model.embedding_scale", m.embedding_scale != 1.0, "factor of its embeddings"},
      {"model.residual_scale", m.residual_scale != 1.0, "factor of its branches"},
      {"model.logit_scale", m.logit_scale != 1.0, "factor of its logits"},
  }};
  for (const ShapeChoice& choice : choices) {
    if (!choice.is_made || !r.good(choice.path)) continue;
    r.problem("E0201", choice.path,
              std::string("family ") + to_string(m.family) + " has no " + choice.what,
              "leave it out, or use the llama family");
  }
}

void check_parallel_block(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (!r.good("model.parallel_block") || !m.parallel_block) return;
  if (r.good("model.norm_placement") && m.norm_placement != NormPlacement::pre) {
    r.problem("E0201", "model.norm_placement",
              "a parallel block has one norm, in front of its branches",
              "use \"pre\", or switch parallel_block off");
  }
  const bool is_latent = r.good("model.kv_lora_rank") && m.is_latent();
  const auto is_other = [](const LayerSpec& layer) {
    return layer.mixer != Mixer::attention || layer.feed_forward == FeedForward::none;
  };
  if (is_latent || std::any_of(m.layers.begin(), m.layers.end(), is_other)) {
    r.problem("E0206", "model.parallel_block",
              "a parallel block has plain attention and an MLP, beside each other, in every layer",
              "leave it out, or leave out kv_lora_rank and layers of other kinds");
  }
  if (r.good("model.num_experts") && m.num_experts > 0) {
    r.problem("E0206", "model.parallel_block",
              "attention and MLP of a parallel block are one sum over tensor-parallel ranks, which "
              "experts are no part of",
              "leave it out, or set num_experts to 0");
  }
}

}  // namespace

void resolve_block_shape(Reading& r) {
  ModelSpec& m = r.scenario.model;
  const bool is_llama = m.family == ModelFamily::llama;
  derive(r, "model.activation", m.activation, usual_activation(m.family));
  derive(r, "model.mlp_bias", m.mlp_bias, !is_llama);
  derive(r, "model.norm_kind", m.norm_kind,
         m.family == ModelFamily::gpt2 ? NormKind::layer : NormKind::rms);
  if (!is_llama) return refuse_shapes(r);
  if (r.good("model.activation") && m.activation == Activation::relu) {
    r.problem("E0201", "model.activation", "family llama has no feed-forward with a plain ReLU",
              "use \"squared_relu\", or the mlp family");
  }
  check_parallel_block(r);
}

}  // namespace shardsim
