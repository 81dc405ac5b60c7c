#include "sim/experiment/model_words.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/model_norm.hpp"

#include "reports/units.hpp"

namespace shardsim {

namespace {

using Words = std::vector<std::string>;

bool attends(const LayerSpec& layer) { return has_mixer(layer.mixer, Mixer::attention); }

template <typename Predicate>
std::int64_t count_layers(const ModelSpec& model, Predicate has) {
  std::int64_t count = 0;
  model.visit_layers([&](const LayerSpec& layer) { count += has(layer) ? 1 : 0; });
  return count;
}

bool has_reach(const ModelSpec& model, AttentionReach reach) {
  return count_layers(model, [&](const LayerSpec& layer) {
           return attends(layer) && layer.attention == reach;
         }) > 0;
}

// " in 12 of 48 layers", or nothing where it is all of them.
std::string share_of(std::int64_t count, std::int64_t all) {
  return count == all ? std::string() : fmt::format(" in {} of {} layers", count, all);
}

template <typename Predicate>
void add_layers(const ModelSpec& model, const std::string& words, Predicate has, Words& list) {
  const std::int64_t count = count_layers(model, has);
  if (count > 0) list.push_back(words + share_of(count, model.num_layers));
}

std::string heads_in_words(const HeadOptions& heads) {
  std::string words = fmt::format("{} heads of {}", heads.num_attention_heads, heads.head_dim);
  if (heads.num_query_groups != heads.num_attention_heads) {
    words += fmt::format(", {} of keys and values", heads.num_query_groups);
  }
  if (heads.value_head_dim != heads.head_dim) {
    words += fmt::format(", values of {}", heads.value_head_dim);
  }
  if (heads.keys_are_values) words += ", keys are values";
  return words;
}

void add_heads(const ModelSpec& model, Words& list) {
  if (model.is_latent()) {
    list.push_back(fmt::format("{} heads on latents: keys and values {}{}",
                               model.num_attention_heads, format_count(model.kv_lora_rank),
                               model.q_lora_rank > 0
                                   ? fmt::format(", queries {}", format_count(model.q_lora_rank))
                                   : std::string()));
    return;
  }
  for (const HeadOptions& kind : model.kinds_of_heads()) {
    add_layers(
        model, heads_in_words(kind),
        [&](const LayerSpec& layer) { return attends(layer) && model.heads_of(layer) == kind; },
        list);
  }
}

// Windows and chunks by their sizes, in the order of the first layer that has each.
void add_reaches(const ModelSpec& model, Words& list) {
  std::vector<LayerSpec> kinds;
  model.visit_layers([&](const LayerSpec& layer) {
    const auto is_same = [&](const LayerSpec& kind) {
      return kind.window_size == layer.window_size && kind.chunk_size == layer.chunk_size;
    };
    const bool is_bounded = attends(layer) && layer.attention != AttentionReach::causal;
    if (is_bounded && std::none_of(kinds.begin(), kinds.end(), is_same)) kinds.push_back(layer);
  });
  for (const LayerSpec& kind : kinds) {
    const bool slides = kind.attention == AttentionReach::sliding;
    add_layers(
        model,
        fmt::format("{} of {}", slides ? "windows" : "chunks",
                    format_count(slides ? kind.window_size : kind.chunk_size)),
        [&](const LayerSpec& layer) {
          return attends(layer) && layer.window_size == kind.window_size &&
                 layer.chunk_size == kind.chunk_size;
        },
        list);
  }
}

void add_attention_options(const ModelSpec& model, Words& list) {
  add_layers(
      model, "sinks", [&](const LayerSpec& layer) { return attends(layer) && layer.sinks; }, list);
  if (model.family == ModelFamily::llama) {
    add_layers(
        model, "no positions",
        [&](const LayerSpec& layer) { return attends(layer) && !layer.rotary; }, list);
  }
  const auto add = [&](bool has, const char* words) {
    if (has) list.emplace_back(words);
  };
  add(model.family == ModelFamily::llama && !model.is_latent() && model.layers.empty() &&
          model.rotary_dim < model.head_dim,
      "positions in a part of each head");
  add(model.query_key_norm == QueryKeyNorm::per_head, "norms of queries and keys");
  add(model.query_key_norm == QueryKeyNorm::whole, "norms of whole queries and keys");
  add(model.query_key_norm == QueryKeyNorm::weightless, "norms of queries and keys, no weights");
  add(model.value_norm, "norm of values");
  add(model.query_key_value_bias || model.attention_out_bias, "biases");
  add(model.attention_output_gate || model.attention_head_gate, "an output gate");
  add(model.attention_logit_cap > 0, "capped scores");
  add(model.query_temperature_scale > 0, "queries that grow with positions");
}

std::string dense_in_words(const ModelSpec& model) {
  return fmt::format("{} {}{}", to_string(model.activation), format_count(model.ffn_hidden_size),
                     share_of(model.layers_with_dense(), model.num_layers));
}

std::string experts_in_words(const ModelSpec& model) {
  std::string words = fmt::format(
      "{} {} experts of {}, {} for a token{}", model.num_experts, to_string(model.activation),
      format_count(model.moe_ffn_hidden_size), model.num_experts_per_token,
      share_of(model.layers_with_experts(), model.num_layers));
  if (model.moe_shared_ffn_hidden_size > 0) {
    words += fmt::format("; a shared one of {}{}", format_count(model.moe_shared_ffn_hidden_size),
                         model.moe_shared_gate ? " with a gate" : "");
  }
  if (model.moe_expert_bias) words += "; biases";
  if (model.moe_latent_size > 0) {
    words += fmt::format("; on latents of {}", format_count(model.moe_latent_size));
  }
  words += fmt::format("; {} router", to_string(model.moe_router_score));
  if (model.moe_router_bias_update_rate > 0) words += " with biases of the choice";
  if (model.moe_router_num_groups > 1) {
    words +=
        fmt::format(", {} of {} groups", model.moe_router_group_topk, model.moe_router_num_groups);
  }
  return words;
}

const char* words_of(NormPlacement placement) {
  switch (placement) {
    case NormPlacement::pre:
      return "";
    case NormPlacement::post:
      return " behind branches";
    case NormPlacement::sandwich:
      return " around branches";
  }
  return "";
}

}  // namespace

std::string mfu_convention(const ModelSpec& model) {
  Words parts = {"3 x forward's matrix products"};
  const auto add = [&](bool has, const char* words) {
    if (has) parts.emplace_back(words);
  };
  const bool attends = model.family != ModelFamily::mlp;
  add(attends && has_reach(model, AttentionReach::causal), "causal pairs of positions");
  add(attends && has_reach(model, AttentionReach::sliding), "pairs in windows");
  add(attends && has_reach(model, AttentionReach::chunked), "pairs in chunks");
  add(model.is_latent(), "projections of latents");
  add(model.layers_with_experts() > 0, "chosen experts");
  add(model.layers_mixed_by(Mixer::delta_net) > 0, "8 d^2 per token and head of DeltaNet");
  add(model.layers_mixed_by(Mixer::mamba) > 0, "7 d N per token and head of Mamba-2");
  add(model.mtp_num_layers > 0, "block and head of each prediction depth");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string mixers_in_words(const ModelSpec& model) {
  if (model.family == ModelFamily::mlp) return {};
  Words list;
  if (model.layers_mixed_by(Mixer::attention) > 0) {
    add_heads(model, list);
    add_reaches(model, list);
    add_attention_options(model, list);
  }
  const auto mixes_by = [](Mixer mixer) {
    return [mixer](const LayerSpec& layer) { return has_mixer(layer.mixer, mixer); };
  };
  const DeltaNetOptions& delta = model.delta_net;
  add_layers(model,
             fmt::format("Gated DeltaNet of {} key heads of {}, {} value heads of {}",
                         delta.key_heads, delta.key_size, delta.value_heads, delta.value_size),
             mixes_by(Mixer::delta_net), list);
  const MambaOptions& mamba = model.mamba;
  const char* const place =
      model.layers_mixed_by(Mixer::attention_mamba) > 0 ? " beside attention" : "";
  add_layers(model,
             fmt::format("Mamba-2 of {} heads of {}, states of {}{}", mamba.num_heads,
                         mamba.head_size, mamba.state_size, place),
             mixes_by(Mixer::mamba), list);
  return fmt::format("{}", fmt::join(list, "; "));
}

std::string blocks_in_words(const ModelSpec& model) {
  if (model.family == ModelFamily::mlp) return {};
  const bool is_rms = model.family == ModelFamily::llama && model.norm_kind == NormKind::rms;
  const bool is_centred = model.norm_zero_centred;
  Words list = {fmt::format("{}{} norms{}", is_centred ? "zero-centred " : "",
                            is_rms ? "RMS" : "layer", words_of(model.norm_placement))};
  const auto add = [&](bool has, const char* words) {
    if (has) list.emplace_back(words);
  };
  add(model.parallel_block, "attention and MLP side by side");
  const bool scales_mlp = model.mlp_gate_scale != 1 || model.mlp_output_scale != 1;
  const bool scales_mamba = model.mamba.scales_projection() || model.mamba.output_scale != 1;
  add(model.embedding_scale != 1 || model.residual_scale != 1 || model.logit_scale != 1 ||
          scales_mlp || scales_mamba,
      "multipliers");
  add(model.final_logit_cap > 0, "capped logits");
  add(model.tied_embeddings, "tied head");
  return fmt::format("{}", fmt::join(list, "; "));
}

std::string feed_forwards_in_words(const ModelSpec& model) {
  Words list;
  if (model.layers_with_dense() > 0) list.push_back(dense_in_words(model));
  if (model.layers_with_experts() > 0) list.push_back(experts_in_words(model));
  return fmt::format("{}", fmt::join(list, "; "));
}

}  // namespace shardsim
