#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "strategies/model/make_model.hpp"

#include "scenarios/formats/emit.hpp"

// Parts that torchtitan's models have: those of torchtitan/models at pytorch/torchtitan
// b5bcd76c66d0, in the files that stand beside the parts. Kimi-K2's language model is
// DeepSeek-V3's.
namespace shardsim {

namespace {

// A set of their models.
using Models = unsigned;
constexpr Models kLlama3 = 1;
constexpr Models kQwen3 = 2;
constexpr Models kQwen35 = 4;
constexpr Models kDeepSeek = 8;
constexpr Models kGptOss = 16;
constexpr Models kAll = kLlama3 | kQwen3 | kQwen35 | kDeepSeek | kGptOss;

struct TheirModel {
  Models set;
  const char* folder;
};
constexpr std::array kModels = {
    TheirModel{kLlama3, "llama3"}, TheirModel{kQwen3, "qwen3"}, TheirModel{kQwen35, "qwen3_5"},
    TheirModel{kDeepSeek, "deepseek_v3"}, TheirModel{kGptOss, "gpt_oss"}};

bool attends_in_some_layer(const ModelSpec& model, bool (*is_so)(const LayerSpec&)) {
  bool found = false;
  model.visit_layers([&](const LayerSpec& layer) {
    found = found || (has_mixer(layer.mixer, Mixer::attention) && is_so(layer));
  });
  return found;
}

bool attends(const ModelSpec& model) {
  return attends_in_some_layer(model, [](const LayerSpec&) { return true; });
}

// The nearest of their models lacks a part, or is otherwise than ours.
enum class Form : std::uint8_t { has_no, differs };

struct TheirPart {
  Form form;
  const char* part;  // differs: with its verb.
  Models models;     // That can have it.
  bool (*is_there)(const ModelSpec& model);

  [[nodiscard]] std::string words() const {
    return form == Form::has_no ? std::string("has no ") + part : part;
  }
};

// Some of their models have a part always, so a model without it differs.
constexpr std::array kParts = {
    // deepseek_v3/model.py: Attention; all others have GQAttention (common/attention.py) or one of
    // the same shape.
    TheirPart{Form::has_no, "latents (kv_lora_rank)", kDeepSeek,
              [](const ModelSpec& model) { return model.is_latent(); }},
    TheirPart{Form::differs, "always has latents (kv_lora_rank)", kAll & ~kDeepSeek,
              [](const ModelSpec& model) { return attends(model) && !model.is_latent(); }},
    // qwen3_5/gdn.py.
    TheirPart{Form::has_no, "layers of gated DeltaNet (mixer delta_net)", kQwen35,
              [](const ModelSpec& model) { return model.layers_mixed_by(Mixer::delta_net) > 0; }},
    // qwen3_5/model.py: Qwen35Attention has an output gate, norms of queries and keys, and turns
    // rotary_dim elements; OffsetRMSNorm.
    TheirPart{Form::has_no, "gates of attention's output (attention_output_gate)", kQwen35,
              [](const ModelSpec& model) { return model.attention_output_gate; }},
    TheirPart{
        Form::differs, "always has gates of attention's output (attention_output_gate)",
        kAll & ~kQwen35,
        [](const ModelSpec& model) { return attends(model) && !model.attention_output_gate; }},
    TheirPart{
        Form::has_no, "norms of queries and keys (query_key_norm)", kLlama3 | kQwen3 | kQwen35,
        [](const ModelSpec& model) { return model.query_key_norm == QueryKeyNorm::per_head; }},
    TheirPart{Form::differs, "always has norms of queries and keys (query_key_norm)",
              kAll & ~kQwen35,
              [](const ModelSpec& model) {
                return attends(model) && model.query_key_norm == QueryKeyNorm::none;
              }},
    TheirPart{Form::differs, "turns whole heads (rotary_dim)", kQwen35,
              [](const ModelSpec& model) {
                return attends(model) && !model.is_latent() && model.rotary_dim != model.head_dim;
              }},
    TheirPart{Form::differs, "has weights of norms around one (norm_zero_centred)", kQwen35,
              [](const ModelSpec& model) { return model.norm_zero_centred; }},
    TheirPart{Form::differs, "has weights of norms around zero (norm_zero_centred)",
              kAll & ~kQwen35, [](const ModelSpec& model) { return !model.norm_zero_centred; }},
    // gpt_oss/model.py and moe.py: sinks in each layer, experts in each layer, and their biases and
    // clamped activation.
    TheirPart{Form::has_no, "sinks (model.layers[].sinks)", kGptOss, has_sinks},
    TheirPart{Form::differs, "always has sinks (model.layers[].sinks)", kAll & ~kGptOss,
              [](const ModelSpec& model) {
                return attends_in_some_layer(model,
                                             [](const LayerSpec& layer) { return !layer.sinks; });
              }},
    TheirPart{Form::has_no, "biases of experts (moe_expert_bias)", kGptOss,
              [](const ModelSpec& model) {
                return model.layers_with_experts() > 0 && model.moe_expert_bias;
              }},
    TheirPart{Form::differs, "always has biases of experts (moe_expert_bias)",
              kQwen3 | kQwen35 | kDeepSeek,
              [](const ModelSpec& model) {
                return model.layers_with_experts() > 0 && !model.moe_expert_bias;
              }},
    TheirPart{
        Form::has_no, "clamped activation (swiglu_limit)", kGptOss,
        [](const ModelSpec& model) { return model.activation == Activation::clamped_swiglu; }},
    TheirPart{
        Form::differs, "always has a clamped activation (swiglu_limit)", kAll & ~kGptOss,
        [](const ModelSpec& model) { return model.activation != Activation::clamped_swiglu; }},
    TheirPart{Form::differs, "always has experts (model.layers[].feed_forward)", kAll & ~kGptOss,
              [](const ModelSpec& model) { return model.layers_with_dense() > 0; }},
    // llama3/model.py has no experts.
    TheirPart{Form::has_no, "experts (num_experts)", kAll & ~kLlama3,
              [](const ModelSpec& model) { return model.layers_with_experts() > 0; }},
    // deepseek_v3/mtp.py.
    TheirPart{Form::has_no, "multi-token prediction (mtp_num_layers)", kDeepSeek,
              [](const ModelSpec& model) {
                return model.mtp_num_layers > 0 && model.is_latent();  // Else no model has it.
              }},
    // moe.py of gpt_oss: what experts share has a plain activation.
    TheirPart{Form::has_no, "shared experts (moe_shared_ffn_hidden_size)",
              kQwen3 | kQwen35 | kDeepSeek,
              [](const ModelSpec& model) {
                return model.layers_with_experts() > 0 && model.moe_shared_ffn_hidden_size > 0;
              }},
    // deepseek_v3/model.py and gpt_oss/model.py: mscale beside rope.scaling yarn.
    TheirPart{Form::differs, "has scores of another scale (attention_scale)", kDeepSeek | kGptOss,
              [](const ModelSpec& model) {
                return model.attention_scale > 0 && (model.is_latent() || has_sinks(model));
              }},
};

std::vector<std::string> missing_of(const TheirModel& theirs, const ModelSpec& model) {
  std::vector<std::string> missing;
  for (const TheirPart& part : kParts) {
    if ((part.models & theirs.set) == 0 && part.is_there(model)) missing.push_back(part.words());
  }
  return missing;
}

// One of their models has to have all parts: the nearest is named with what it lacks.
std::string lacking_in_nearest(const ModelSpec& model) {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  std::string words;
  for (const TheirModel& theirs : kModels) {
    const std::vector<std::string> missing = missing_of(theirs, model);
    if (missing.size() >= fewest) continue;
    fewest = missing.size();
    words = fmt::format("torchtitan has no model with these parts together: its nearest, {}, {}",
                        theirs.folder, fmt::join(missing, ", "));
  }
  return fewest > 0 ? words : "";
}

bool has_part_of_qwen35(const ModelSpec& model) {
  return std::any_of(kParts.begin(), kParts.end(), [&](const TheirPart& part) {
    return part.models == kQwen35 && part.is_there(model);
  });
}

// Sizes of windows that some layer has.
std::set<std::int64_t> windows_of(const ModelSpec& model) {
  std::set<std::int64_t> sizes;
  for (const LayerSpec& layer : model.layers) {
    if (layer.window_size > 0) sizes.insert(layer.window_size);
  }
  return sizes;
}

// Parallel degrees that their code refuses for a model, or does not cut it by.
std::vector<std::string> refused_splits(const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  const ParallelismSpec& p = scenario.parallelism;
  std::vector<std::string> refused;
  // common/decoder.py and deepseek_v3/mtp.py: update_from_config().
  if (model.tied_embeddings && p.pp > 1) {
    refused.emplace_back(
        "torchtitan refuses tied_embeddings with a pipeline: plan with --fix pp=1");
  }
  if (model.mtp_num_layers > 0 && (p.pp > 1 || p.cp > 1)) {
    refused.emplace_back(
        "torchtitan refuses mtp_num_layers with a pipeline or context parallelism: plan with "
        "--fix pp=1 --fix cp=1");
  }
  // qwen3_5/parallelize.py.
  if (p.cp > 1 && has_part_of_qwen35(model)) {
    refused.emplace_back("torchtitan's qwen3_5 has no context parallelism: plan with --fix cp=1");
  }
  // common/decoder.py: it wants FlexAttention, which has windows, of one size, in gpt_oss alone.
  const std::size_t windows = windows_of(model).size();
  if (p.cp > 1 && windows > (has_sinks(model) ? 1U : 0U)) {
    refused.emplace_back(
        "torchtitan has windows (model.layers[].window_size) beside context parallelism in gpt_oss "
        "alone, and of one size: plan with --fix cp=1");
  }
  // qwen3_5/sharding.py cuts the gate of shared experts, gpt_oss/sharding.py biases behind
  // row-parallel layers.
  if (p.tp > 1 && model.moe_shared_gate && !has_part_of_qwen35(model)) {
    refused.emplace_back(
        "torchtitan shards moe_shared_gate in qwen3_5 alone: plan with --fix tp=1");
  }
  if (p.tp > 1 && (model.mlp_bias || model.attention_out_bias) && !has_sinks(model)) {
    refused.emplace_back(
        "torchtitan shards biases behind row-parallel layers (mlp_bias, attention_out_bias) in "
        "gpt_oss alone: plan with --fix tp=1");
  }
  if (p.etp > 1) {
    refused.emplace_back(
        "torchtitan has no slices of experts (parallelism.etp): plan with --fix etp=1");
  }
  if (const std::string heads = copied_heads(scenario); !heads.empty()) {
    refused.push_back(
        fmt::format("torchtitan wants tp to divide key and value heads, which are {}", heads));
  }
  return refused;
}

}  // namespace

std::vector<std::string> parts_of_today(const ModelSpec& model) {
  std::vector<std::string> parts;
  for (const TheirPart& part : kParts) {
    if (part.form == Form::has_no && part.is_there(model)) parts.emplace_back(part.part);
  }
  return parts;
}

std::vector<std::string> unlike_torchtitan(const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  std::vector<std::string> unlike;
  if (model.family != ModelFamily::llama) {
    unlike.push_back(fmt::format("torchtitan has no models of family {}", to_string(model.family)));
  } else {
    for (const std::string& part : parts_with_own_code(model)) {
      unlike.push_back("torchtitan's models have no " + part);
    }
    if (const std::string words = lacking_in_nearest(model); !words.empty()) {
      unlike.push_back(words);
    }
    // qwen3_5/model.py: vision_encoder has no default.
    if (has_part_of_qwen35(model)) {
      unlike.emplace_back("torchtitan's qwen3_5 always has a vision encoder, which is not planned");
    }
  }
  // common/moe.py: a group is scored by its two best experts.
  if (model.moe_router_num_groups > 1 && model.num_experts == model.moe_router_num_groups) {
    unlike.emplace_back("torchtitan's groups have two experts or more (moe_router_num_groups)");
  }
  if (scenario.training.hidden_dropout > 0) {
    unlike.emplace_back("torchtitan's models have no dropout (training.hidden_dropout)");
  }
  const std::vector<std::string> splits = refused_splits(scenario);
  unlike.insert(unlike.end(), splits.begin(), splits.end());
  return unlike;
}

}  // namespace shardsim
