#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>

#include <rapidcheck.h>

#include "strategies/model/make_model.hpp"

#include "sim/harness/testing/rapidcheck_mixers.hpp"

// RapidCheck generators of models, for rapidcheck.hpp.
namespace shardsim {
namespace gen {

namespace detail {
/// Heads of a layer's own.
[[nodiscard]] inline rc::Gen<HeadOptions> of_heads() {
  return rc::gen::exec([] {
    HeadOptions heads;
    heads.num_query_groups = *rc::gen::inRange<std::int64_t>(1, 3);
    heads.num_attention_heads = heads.num_query_groups * *rc::gen::inRange<std::int64_t>(1, 3);
    heads.head_dim = 2 * *rc::gen::inRange<std::int64_t>(1, 4);
    heads.rotary_dim = 2;
    heads.keys_are_values = *rc::gen::arbitrary<bool>();
    if (!heads.keys_are_values) heads.value_head_dim = *rc::gen::inRange<std::int64_t>(0, 5);
    return heads;
  });
}

/// Attention as llamas of today have it; layers may differ.
[[nodiscard]] inline rc::Gen<bool> of_attention(ModelOptions& options) {
  return rc::gen::exec([&options] {
    options.query_key_norm = static_cast<QueryKeyNorm>(
        *rc::gen::inRange(0, static_cast<int>(QueryKeyNorm::weightless) + 1));
    if (*rc::gen::arbitrary<bool>()) {
      options.query_temperature = {0.5, *rc::gen::inRange<std::int64_t>(1, 4)};
    }
    options.attention_output_gate = *rc::gen::arbitrary<bool>();
    options.attention_head_gate = !options.attention_output_gate && *rc::gen::arbitrary<bool>();
    options.value_norm = *rc::gen::arbitrary<bool>();
    options.value_scale = *rc::gen::arbitrary<bool>() ? 0.7 : 1.0;
    options.attention_logit_cap = *rc::gen::arbitrary<bool>() ? 2.0 : 0.0;
    options.final_logit_cap = *rc::gen::arbitrary<bool>() ? 3.0 : 0.0;
    options.mtp_num_layers = *rc::gen::weightedElement<std::int64_t>({{3, 0}, {1, 1}, {1, 2}});
    if (!*rc::gen::arbitrary<bool>()) return false;
    for (std::int64_t i = 0; i < options.num_layers; ++i) {
      LayerOptions layer;
      layer.mask.reach = static_cast<AttentionReach>(*rc::gen::inRange(0, 3));
      if (layer.mask.reach != AttentionReach::causal) {
        layer.mask.size = *rc::gen::inRange<std::int64_t>(1, 10);
      }
      layer.has_rotary = *rc::gen::arbitrary<bool>();
      layer.has_sinks = *rc::gen::arbitrary<bool>();
      if (*rc::gen::arbitrary<bool>()) layer.heads = *of_heads();
      options.layers.push_back(*rc::gen::weightedOneOf<LayerOptions>(
          {{2, rc::gen::just(layer)}, {1, of_other_mixers()}}));
    }
    *of_mixer_sizes(options);
    return true;
  });
}

/// Latent attention, of as many key heads as query heads.
[[nodiscard]] inline rc::Gen<bool> of_latents(ModelOptions& options) {
  return rc::gen::exec([&options] {
    options.num_query_groups = options.num_attention_heads;
    options.head_dim = 0;
    options.q_lora_rank = *rc::gen::inRange<std::int64_t>(0, 7);
    options.kv_lora_rank = *rc::gen::inRange<std::int64_t>(1, 7);
    options.qk_nope_head_dim = *rc::gen::inRange<std::int64_t>(1, 5);
    options.qk_rope_head_dim = 2 * *rc::gen::inRange<std::int64_t>(1, 3);
    options.value_head_dim = *rc::gen::inRange<std::int64_t>(1, 5);
    options.query_key_norm = QueryKeyNorm::none;
    options.attention_output_gate = false;
    options.attention_head_gate = false;
    options.value_norm = false;
    options.value_scale = 1.0;
    for (LayerOptions& layer : options.layers) {
      layer.has_sinks = false;
      layer.heads = {};
    }
    return true;
  });
}

/// Blocks as llamas of today have them.
inline void draw_block_shape(ModelOptions& options) {
  const auto flips = [] { return *rc::gen::arbitrary<bool>(); };
  options.activation.kind = static_cast<Activation>(*rc::gen::inRange(
      static_cast<int>(Activation::gelu_tanh), static_cast<int>(Activation::clamped_swiglu) + 1));
  options.activation.limit = 0.5;
  options.mlp_bias = flips();
  options.mlp_gate_scale = flips() ? 0.8 : 1.0;
  options.mlp_output_scale = flips() ? 1.5 : 1.0;
  options.norm = static_cast<NormKind>(*rc::gen::inRange(0, 3));
  options.norm_zero_centred = flips();
  options.parallel_block = flips();
  if (!options.parallel_block) {
    options.norm_placement = static_cast<NormPlacement>(*rc::gen::inRange(0, 3));
  }
  options.embedding_scale = flips() ? 3.0 : 1.0;
  options.residual_scale = flips() ? 0.5 : 1.0;
  options.logit_scale = flips() ? 0.25 : 1.0;
}
}  // namespace detail

/// A model of this family (model_families()) that is computed in an instant.
[[nodiscard]] inline rc::Gen<ModelOptions> small_models(const std::string& family) {
  return rc::gen::exec([family] {
    ModelOptions options;
    options.family = family;
    options.dtype = DType::fp64;
    options.num_layers = *rc::gen::inRange<std::int64_t>(1, 4);
    options.num_query_groups = *rc::gen::inRange<std::int64_t>(1, 3);
    options.num_attention_heads = options.num_query_groups * *rc::gen::inRange<std::int64_t>(1, 3);
    // Rotary embeddings turn pairs of elements.
    options.hidden_size = options.num_attention_heads * 2 * *rc::gen::inRange<std::int64_t>(1, 4);
    // 0: heads share the width.
    options.head_dim = 2 * *rc::gen::inRange<std::int64_t>(0, 4);
    if (family == "llama") *detail::of_attention(options);
    const bool is_latent = family == "llama" && *rc::gen::inRange(0, 4) == 0;
    if (is_latent) *detail::of_latents(options);
    const bool is_plain = family == "llama" && !is_latent;
    if (is_plain && options.head_size() > 2 && *rc::gen::arbitrary<bool>()) {
      options.rotary_dim = options.head_size() / 4 * 2;
    }
    if (is_plain) options.value_head_dim = *rc::gen::inRange<std::int64_t>(0, 5);
    if (family == "llama") {
      detail::draw_block_shape(options);
      const auto is_other = [](const LayerOptions& layer) {
        return layer.mixer != Mixer::attention || layer.feed_forward == FeedForward::none;
      };
      const bool is_mixed = std::any_of(options.layers.begin(), options.layers.end(), is_other);
      options.parallel_block = options.parallel_block && !is_latent && !is_mixed;
    }
    options.query_key_value_bias = is_plain && *rc::gen::arbitrary<bool>();
    options.attention_out_bias = is_plain && *rc::gen::arbitrary<bool>();
    options.ffn_hidden_size = *rc::gen::inRange<std::int64_t>(1, 17);
    options.vocab_size = *rc::gen::inRange<std::int64_t>(2, 18);
    options.seq_len = family == "mlp" ? 1 : *rc::gen::inRange<std::int64_t>(1, 9);
    options.max_position_embeddings = options.seq_len;
    return options;
  });
}

}  // namespace gen

// How RapidCheck prints what it has found: it looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void showValue(const ModelOptions& model, std::ostream& out) {
  out << model.family << ", " << model.num_layers << " layers of " << model.hidden_size << ", ffn "
      << model.ffn_hidden_size << ", heads " << model.num_attention_heads << " of which keys "
      << model.num_query_groups << " of " << model.head_size() << ", values of "
      << model.value_size() << ", latents " << model.q_lora_rank << " and " << model.kv_lora_rank
      << " with " << model.qk_rope_head_dim << " turned, norm of queries and keys "
      << static_cast<int>(model.query_key_norm) << (model.attention_output_gate ? ", gated" : "")
      << (model.attention_head_gate ? ", heads gated" : "")
      << (model.value_norm ? ", values normed" : "") << (model.value_scale != 1.0 ? ", scaled" : "")
      << (model.query_temperature.acts()
              ? ", growing every " + std::to_string(model.query_temperature.floor)
              : "")
      << (model.attention_logit_cap > 0.0 ? ", scores capped" : "")
      << (model.final_logit_cap > 0.0 ? ", logits capped" : "")
      << (model.mtp_num_layers > 0 ? ", mtp " + std::to_string(model.mtp_num_layers) : "")
      << (model.rotary_dim > 0 ? ", partly turned" : "")
      << (model.query_key_value_bias ? ", q, k and v biased" : "")
      << (model.attention_out_bias ? ", output biased" : "") << ", activation "
      << static_cast<int>(model.activation.kind) << (model.mlp_bias ? ", MLP biased" : "")
      << ", MLP scaled " << model.mlp_gate_scale << " " << model.mlp_output_scale
      << (model.mamba.scales_projection() ? ", Mamba's projection scaled" : "")
      << (model.mamba.output_scale != 1.0 ? ", Mamba's output scaled" : "") << ", norm "
      << static_cast<int>(model.norm) << " at " << static_cast<int>(model.norm_placement)
      << (model.norm_zero_centred ? " around 0" : "") << (model.parallel_block ? ", parallel" : "")
      << ", scales " << model.embedding_scale << " " << model.residual_scale << " "
      << model.logit_scale << ", vocabulary " << model.vocab_size << ", positions "
      << model.seq_len;
  for (const LayerOptions& layer : model.layers) {
    out << "; mixer " << static_cast<int>(layer.mixer)
        << (layer.feed_forward == FeedForward::none ? " alone" : "") << ", mask "
        << static_cast<int>(layer.mask.reach) << " of " << layer.mask.size
        << (layer.has_rotary ? "" : " without rotary") << (layer.has_sinks ? " with sinks" : "");
    const HeadOptions& heads = layer.heads;
    if (heads == HeadOptions{}) continue;
    out << ", heads " << heads.num_attention_heads << " of which keys " << heads.num_query_groups
        << " of " << heads.head_dim << ", values of " << heads.value_head_dim
        << (heads.keys_are_values ? ", which are keys" : "");
  }
}

}  // namespace shardsim
