#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Step 3.5 and 3.7 alone have. Names and defaults are those of
// Step3p7TextConfig, and the meaning that of modular_step3p7.py, in huggingface/transformers at
// a7b81dfe73fd. Blocks of multi-token prediction, which it does not load, are vLLM's: they come
// after the layers, so no list of layers gives them experts (step3p5.py at 01b50b9e8fbe).
namespace shardsim {

namespace {

constexpr std::int64_t kSharedFfn = 1280;
constexpr std::int64_t kDenseLayers = 3;

// "3,4,5", or a list of numbers. Empty: neither is there.
std::vector<bool> read_enumerated(ForeignObject& config, std::int64_t num_layers) {
  constexpr const char* kKey = "moe_layers_enum";
  const JsonValue* value = config.find(kKey);
  if (value == nullptr) return {};
  std::vector<bool> sparse(static_cast<std::size_t>(num_layers));
  const auto take = [&](double layer) {
    if (layer >= 0.0 && layer < static_cast<double>(num_layers)) {
      sparse[static_cast<std::size_t>(layer)] = true;
    }
  };
  if (value->is_array()) {
    for (const double each : config.numbers(kKey)) take(each);
    return sparse;
  }
  const std::string text = config.text(kKey).value_or("");
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t layer = 0;
    const auto [rest, error] = std::from_chars(at, end, layer);
    const bool is_next = rest == end || *rest == ',';
    if (error != std::errc() || !is_next) {
      config.refuse("E1319", kKey, "moe_layers_enum is no list of layers",
                    "write their numbers with commas between them, such as \"3,4,5\"");
    }
    take(static_cast<double>(layer));
    at = rest == end ? end : rest + 1;
  }
  return sparse;
}

// transformers reads a value for each layer; those behind the layers are of multi-token prediction.
void refuse_short_list(ForeignObject& config, const char* key, std::size_t entries,
                       const HfModel& model) {
  if (entries == 0 || entries >= model.layers.size()) return;
  config.refuse("E1319", key,
                fmt::format("{} has {} entries for {} layers", key, entries, model.layers.size()),
                "write a number for each layer");
}

void read_step_router(ForeignObject& config, RouterOptions& router) {
  const bool has_bias = config.truth("use_moe_router_bias").value_or(false);
  router.score = has_bias ? RouterScore::sigmoid : RouterScore::softmax;
  router.normalised = has_bias && config.truth("norm_expert_weight").value_or(true);
  router.bias_update_rate = has_bias ? 1.0 : 0.0;
  router.scaling_factor = config.number("moe_router_scaling_factor").value_or(1.0);
}

// Whether keys of other families, which files have in place of Step's own, say it.
bool says_layers(ForeignObject& config) {
  return config.has("first_k_dense_replace") || config.has("mlp_layer_types");
}

// Layers with windows have the heads of attention_other_setting, and each layer turns a part of its
// heads. The model's are those of the first layer that sees everything.
void read_heads(ForeignObject& config, HfModel& model) {
  ForeignObject other = config.inner("attention_other_setting");
  constexpr const char* kParts = "partial_rotary_factors";
  const std::vector<double> parts = config.numbers(kParts);
  refuse_short_list(config, kParts, parts.size(), model);
  if (std::any_of(parts.begin(), parts.end(), [](double x) { return x < 0.0 || x > 1.0; })) {
    config.refuse("E1319", kParts, "partial_rotary_factors has a number below 0 or above 1",
                  "write for each layer the share of its heads that turns");
  }
  const auto turned = [&](std::int64_t head_dim, std::size_t layer) {
    if (parts.empty()) return head_dim * model.rotary_dim / model.head_dim;
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * parts[layer]);
  };
  std::size_t full = 0;
  while (full + 1 < model.layers.size() && model.layers[full].attention == "sliding") ++full;
  const std::int64_t first_turned = turned(model.head_dim, full);
  if (first_turned > 0) model.rotary_dim = first_turned;
  HeadOptions windowed = model.own_heads();
  take_hf_heads(other,
                {{"num_attention_heads", &HeadOptions::num_attention_heads},
                 {"num_attention_groups", &HeadOptions::num_query_groups},
                 {"head_dim", &HeadOptions::head_dim}},
                windowed);
  windowed.value_head_dim = windowed.head_dim;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    HeadOptions heads = model.layers[i].attention == "sliding" ? windowed : model.own_heads();
    heads.rotary_dim = turned(heads.head_dim, i);
    model.give_heads(heads, model.layers[i]);
  }
}

void read_step(ForeignObject& config, HfModel& model) {
  model.key_value_heads =
      config.integer("num_attention_groups", kForeignDegree).value_or(model.key_value_heads);
  if (model.shared_ffn == 0) model.shared_ffn = kSharedFfn;
  const std::vector<bool> sparse = read_enumerated(config, model.num_layers);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const bool is_first = static_cast<std::int64_t>(i) < kDenseLayers;
    const bool is_usual = sparse.empty() && !says_layers(config);
    if (!sparse.empty() || is_usual) {
      const bool has = is_usual ? !is_first : sparse[i];
      model.layers[i].feed_forward = has ? FeedForward::experts : FeedForward::dense;
    }
  }
  read_step_router(config, model.router);
  model.head_gate = config.truth("use_head_wise_attn_gate").value_or(false);
  read_heads(config, model);
  HfLayer block = model.layers.back();
  block.feed_forward = FeedForward::dense;
  model.prediction = {block};
}

std::int64_t sliding_layers(const HfModel& model) {
  return std::count_if(model.layers.begin(), model.layers.end(),
                       [](const HfLayer& layer) { return layer.attention == "sliding"; });
}

// Windows have those heads; a key that says nothing, or the size of a head again, changes nothing.
void add_limits_of_heads(ForeignObject& config, const HfModel& model,
                         std::vector<std::string>& list) {
  ForeignObject other = config.inner("attention_other_setting");
  for (const char* key : {"num_attention_heads", "num_attention_groups", "head_dim"}) {
    (void)other.has(key);
  }
  const auto size = other.integer("head_dim", kForeignSize).value_or(model.head_dim);
  const auto true_size = other.integer("true_head_dim", kForeignSize).value_or(size);
  if (true_size != size) {
    list.push_back(
        fmt::format("{} {} beside head_dim {}", other.name_of("true_head_dim"), true_size, size));
  }
  const std::string type = other.text("attention_type").value_or("sliding_attention");
  if (type != "sliding_attention") {
    list.push_back(
        fmt::format("{} {} (here it is sliding_attention)", other.name_of("attention_type"), type));
  }
  for (const std::string& key : other.rest()) {
    if (other.written(key) == "null") continue;
    list.push_back(
        fmt::format("{} {}: this key is not known here", other.name_of(key), other.written(key)));
  }
}

void add_step_limits(ForeignObject& config, const HfModel& model, std::vector<std::string>& list) {
  add_limits_of_heads(config, model, list);
  for (const char* key : {"swiglu_limits", "swiglu_limits_shared"}) {
    const auto* limits = config.list(key);
    if (limits == nullptr) continue;
    refuse_short_list(config, key, limits->size(), model);
    const auto end = limits->begin() + std::min<std::ptrdiff_t>(limits->size(), model.num_layers);
    const std::int64_t clamped = std::count_if(limits->begin(), end, [](const JsonValue& limit) {
      return limit.number().value_or(0.0) != 0.0;
    });
    if (clamped == 0) continue;
    list.push_back(fmt::format("{}: a clamped SwiGLU in {} of {} layers, which costs nothing", key,
                               clamped, model.num_layers));
  }
  const char* const score = to_string(model.router.score);
  for (const char* key : {"moe_router_activation", "scoring_func"}) {
    const std::string written = config.text(key).value_or(score);
    if (written == score) continue;
    list.push_back(fmt::format("{} {} {} use_moe_router_bias (here it is {})", key, written,
                               model.router.has_choice_bias() ? "with" : "without", score));
  }
}

void write_step(ForeignObject& config, const HfModel& model, Import& import) {
  if (config.has("attention_other_setting") || sliding_layers(model) == 0) return;
  import.warn(
      {"attention_other_setting", "(not there)"},
      fmt::format("the heads of windowed layers: {} are assumed, as in the others", model.heads));
}

}  // namespace

const HfOwnKeys kHfStepKeys = {read_step, add_step_limits, write_step};

}  // namespace shardsim
