#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
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

struct TheirPart {
  const char* words;
  Models models;  // That can have it.
  bool (*is_there)(const ModelSpec& model);
};

// Some of their models have a part always, so what lacks it is a part, too.
constexpr std::array kParts = {
    // deepseek_v3/model.py: Attention; all others have GQAttention (common/attention.py) or one of
    // the same shape.
    TheirPart{"latents (kv_lora_rank)", kDeepSeek,
              [](const ModelSpec& model) { return model.is_latent(); }},
    TheirPart{"attention without latents", kAll & ~kDeepSeek,
              [](const ModelSpec& model) { return attends(model) && !model.is_latent(); }},
    // qwen3_5/gdn.py.
    TheirPart{"layers of gated DeltaNet (mixer delta_net)", kQwen35,
              [](const ModelSpec& model) { return model.layers_mixed_by(Mixer::delta_net) > 0; }},
    // qwen3_5/model.py: Qwen35Attention has an output gate, norms of queries and keys, and turns
    // rotary_dim elements; OffsetRMSNorm.
    TheirPart{"gates of attention's output (attention_output_gate)", kQwen35,
              [](const ModelSpec& model) { return model.attention_output_gate; }},
    TheirPart{
        "attention without a gate of its output", kAll & ~kQwen35,
        [](const ModelSpec& model) { return attends(model) && !model.attention_output_gate; }},
    TheirPart{
        "norms of queries and keys (query_key_norm)", kLlama3 | kQwen3 | kQwen35,
        [](const ModelSpec& model) { return model.query_key_norm == QueryKeyNorm::per_head; }},
    TheirPart{"attention without norms of queries and keys", kAll & ~kQwen35,
              [](const ModelSpec& model) {
                return attends(model) && model.query_key_norm == QueryKeyNorm::none;
              }},
    TheirPart{"heads of which a part turns (rotary_dim)", kQwen35,
              [](const ModelSpec& model) {
                return attends(model) && !model.is_latent() && model.rotary_dim != model.head_dim;
              }},
    TheirPart{"norms with weights around zero (norm_zero_centred)", kQwen35,
              [](const ModelSpec& model) { return model.norm_zero_centred; }},
    TheirPart{"norms with weights around one", kAll & ~kQwen35,
              [](const ModelSpec& model) { return !model.norm_zero_centred; }},
    // gpt_oss/model.py and moe.py: sinks in each layer, experts in each layer, and their biases and
    // clamped activation.
    TheirPart{"sinks (model.layers[].sinks)", kGptOss,
              [](const ModelSpec& model) {
                return attends_in_some_layer(model,
                                             [](const LayerSpec& layer) { return layer.sinks; });
              }},
    TheirPart{"attention without sinks", kAll & ~kGptOss,
              [](const ModelSpec& model) {
                return attends_in_some_layer(model,
                                             [](const LayerSpec& layer) { return !layer.sinks; });
              }},
    TheirPart{"biases of experts (moe_expert_bias)", kGptOss,
              [](const ModelSpec& model) {
                return model.layers_with_experts() > 0 && model.moe_expert_bias;
              }},
    TheirPart{"experts without biases", kQwen3 | kQwen35 | kDeepSeek,
              [](const ModelSpec& model) {
                return model.layers_with_experts() > 0 && !model.moe_expert_bias;
              }},
    TheirPart{
        "clamped activations (activation clamped_swiglu)", kGptOss,
        [](const ModelSpec& model) { return model.activation == Activation::clamped_swiglu; }},
    TheirPart{
        "activations without a clamp", kAll & ~kGptOss,
        [](const ModelSpec& model) { return model.activation != Activation::clamped_swiglu; }},
    TheirPart{"layers with a dense MLP", kAll & ~kGptOss,
              [](const ModelSpec& model) { return model.layers_with_dense() > 0; }},
    // llama3/model.py has no experts.
    TheirPart{"experts (num_experts)", kAll & ~kLlama3,
              [](const ModelSpec& model) { return model.layers_with_experts() > 0; }},
    // deepseek_v3/mtp.py.
    TheirPart{"multi-token prediction (mtp_num_layers)", kDeepSeek,
              [](const ModelSpec& model) { return model.mtp_num_layers > 0; }},
    // deepseek_v3/model.py: mscale beside rope.scaling yarn.
    TheirPart{"scores of another scale (attention_scale)", kDeepSeek,
              [](const ModelSpec& model) { return model.attention_scale > 0; }},
};

std::vector<std::string> missing_of(const TheirModel& theirs, const ModelSpec& model) {
  std::vector<std::string> missing;
  for (const TheirPart& part : kParts) {
    if ((part.models & theirs.set) == 0 && part.is_there(model)) missing.emplace_back(part.words);
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
    words =
        fmt::format("torchtitan has no model with all of these parts: its nearest, {}, has no {}",
                    theirs.folder, fmt::join(missing, ", and no "));
  }
  return fewest > 0 ? words : "";
}

}  // namespace

std::vector<std::string> unlike_torchtitan(const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  const ParallelismSpec& p = scenario.parallelism;
  if (model.family != ModelFamily::llama) {
    return {fmt::format("torchtitan has no models of family {}", to_string(model.family))};
  }
  std::vector<std::string> unlike;
  for (const std::string& part : parts_with_own_code(model)) {
    unlike.push_back("torchtitan's models have no " + part);
  }
  if (unlike.empty()) {
    if (const std::string words = lacking_in_nearest(model); !words.empty()) {
      unlike.push_back(words);
    }
  }
  if (scenario.training.hidden_dropout > 0) {
    unlike.emplace_back("torchtitan's models have no dropout (training.hidden_dropout)");
  }
  // common/decoder.py and deepseek_v3/mtp.py: update_from_config().
  if (model.tied_embeddings && p.pp > 1) {
    unlike.emplace_back("torchtitan refuses tied_embeddings with a pipeline: plan with --fix pp=1");
  }
  if (model.mtp_num_layers > 0 && (p.pp > 1 || p.cp > 1)) {
    unlike.emplace_back(
        "torchtitan refuses mtp_num_layers with a pipeline or context parallelism: plan with "
        "--fix pp=1 --fix cp=1");
  }
  if (const std::string heads = copied_heads(scenario); !heads.empty()) {
    unlike.push_back(
        fmt::format("torchtitan wants tp to divide key and value heads, which are {}", heads));
  }
  return unlike;
}

}  // namespace shardsim
