#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/hf_layers.hpp"

// Which layers of a Hugging Face model have experts. Sources: Qwen3MoeDecoderLayer and
// Ernie4_5_MoeDecoderLayer of transformers; DeepSeek's modeling_deepseek.py for moe_layer_freq,
// which Xiaomi's MiMo-V2 gives as a list.
namespace shardsim {

namespace {

constexpr ForeignRange kLastLayer = {-1, kForeignDegree.most};

// The layers that all keys leave to experts.
class ExpertLayers {
 public:
  explicit ExpertLayers(std::size_t num_layers) : has_(num_layers, true) {}

  /// Keeps each layer i with experts for which i % every == phase.
  void keep_each(std::int64_t every, std::int64_t phase) {
    for (std::size_t i = 0; i < has_.size(); ++i) {
      if (static_cast<std::int64_t>(i) % every != phase) has_[i] = false;
    }
  }
  void drop_before(std::int64_t first) {
    for (std::size_t i = 0; i < has_.size() && static_cast<std::int64_t>(i) < first; ++i) {
      has_[i] = false;
    }
  }
  void drop_after(std::int64_t last) {
    for (std::size_t i = static_cast<std::size_t>(last + 1); i < has_.size(); ++i) has_[i] = false;
  }
  void drop(std::int64_t layer) { has_.at(static_cast<std::size_t>(layer)) = false; }
  [[nodiscard]] bool has(std::size_t layer) const { return has_[layer]; }

 private:
  std::vector<bool> has_;
};

void read_frequency_key(ForeignObject& config, std::int64_t num_layers, ExpertLayers& experts) {
  if (config.has_list("moe_layer_freq")) {
    const std::vector<double> list = hf_numbers_of(config, "moe_layer_freq", num_layers);
    for (std::int64_t i = 0; i < num_layers && !list.empty(); ++i) {
      if (list[static_cast<std::size_t>(i)] == 0.0) experts.drop(i);
    }
  } else if (const auto every = config.integer("moe_layer_freq", kForeignDegree)) {
    experts.keep_each(*every, 0);
  }
}

ExpertLayers read_rules(ForeignObject& config, std::int64_t num_layers) {
  ExpertLayers experts(static_cast<std::size_t>(num_layers));
  for (const char* key : {"decoder_sparse_step", "moe_layer_interval"}) {
    if (const auto every = config.integer(key, kForeignDegree)) {
      experts.keep_each(*every, *every - 1);
    }
  }
  read_frequency_key(config, num_layers, experts);
  for (const char* key : {"first_k_dense_replace", "moe_layer_start_index"}) {
    experts.drop_before(config.integer(key, kForeignCount).value_or(0));
  }
  const std::int64_t last = config.integer("moe_layer_end_index", kLastLayer).value_or(-1);
  if (last >= 0) experts.drop_after(last);
  for (const double layer : config.numbers("mlp_only_layers")) {
    for (std::int64_t i = 0; i < num_layers; ++i) {
      if (layer == static_cast<double>(i)) experts.drop(i);
    }
  }
  return experts;
}

}  // namespace

void read_hf_expert_layers(ForeignObject& config, std::vector<HfLayer>& layers) {
  const auto num_layers = static_cast<std::int64_t>(layers.size());
  const ExpertLayers rules = read_rules(config, num_layers);
  const auto* kinds = hf_list_of(config, "mlp_layer_types", num_layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_named = kinds != nullptr && kinds->at(i).is_string();
    const bool has = is_named ? kinds->at(i).string() == "sparse" : rules.has(i);
    layers[i].feed_forward = has ? FeedForward::experts : FeedForward::dense;
  }
}

std::int64_t leading_dense_layers(const std::vector<HfLayer>& layers) {
  const auto has_experts = [](const HfLayer& layer) {
    return layer.feed_forward == FeedForward::experts;
  };
  const auto first = std::find_if(layers.begin(), layers.end(), has_experts);
  const bool is_rest = std::all_of(first, layers.end(), has_experts);
  return is_rest ? first - layers.begin() : -1;
}

std::string cause_of_hf_expert_layers(ForeignObject& config) {
  for (const char* key : {"mlp_layer_types", "first_k_dense_replace", "moe_layer_start_index"}) {
    if (config.has(key) && config.written(key) != "0") return key;
  }
  for (const char* key :
       {"mlp_only_layers", "decoder_sparse_step", "moe_layer_freq", "moe_layer_interval",
        "moe_layer_end_index", "moe_layers", "interleave_moe_layer_step", "moe_layers_enum"}) {
    if (config.has(key) && config.written(key) != "[]" && config.written(key) != "1") return key;
  }
  return "model_type";
}

}  // namespace shardsim
