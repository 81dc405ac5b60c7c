#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Llama 4 alone has. Names and defaults are those of Llama4TextConfig, and the
// meaning that of modeling_llama4.py, in huggingface/transformers at 008e57439125.
namespace shardsim {

namespace {

constexpr std::int64_t kDenseWidth = 16384;
constexpr double kQueryScale = 0.1;
constexpr std::int64_t kQueryFloor = 8192;

// Python's truth of a value: Llama 4's own files have a number. A key that is not there: yes.
bool is_on(ForeignObject& config, const char* key) {
  const JsonValue* value = config.find(key);
  if (value == nullptr) return true;
  if (const auto number = value->number()) return *number != 0.0;
  return config.truth(key).value_or(true);
}

// By a list of their numbers, or every so many.
std::vector<bool> read_sparse(ForeignObject& config, std::int64_t num_layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(num_layers));
  const std::int64_t step = config.integer("interleave_moe_layer_step", kForeignDegree).value_or(1);
  if (config.has("moe_layers")) {
    for (const double layer : config.numbers("moe_layers")) {
      if (layer >= 0.0 && layer < static_cast<double>(num_layers)) {
        sparse[static_cast<std::size_t>(layer)] = true;
      }
    }
    return sparse;
  }
  for (std::int64_t i = step - 1; i < num_layers; i += step) {
    sparse[static_cast<std::size_t>(i)] = true;
  }
  return sparse;
}

void read_llama4(ForeignObject& config, HfModel& model) {
  model.expert_ffn = model.ffn;  // intermediate_size
  model.shared_ffn = model.expert_ffn;
  model.ffn_key = "intermediate_size_mlp";
  model.ffn = config.integer(model.ffn_key, kForeignSize).value_or(kDenseWidth);
  const std::vector<bool> sparse = read_sparse(config, model.num_layers);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    model.layers[i].feed_forward = sparse[i] ? FeedForward::experts : FeedForward::dense;
  }
  model.weight_on_input = true;
  model.reads_aux_loss = false;
  const double scale = config.number("attn_scale").value_or(kQueryScale);
  model.query_floor = config.integer("floor_scale", kForeignSize).value_or(kQueryFloor);
  if (is_on(config, "attn_temperature_tuning")) model.query_scale = scale;
}

void add_llama4_limits(ForeignObject& config, const HfModel& model,
                       std::vector<std::string>& list) {
  if (model.experts_per_token != 1) {
    list.push_back("num_experts_per_tok " + std::to_string(model.experts_per_token) +
                   ": weights on the inputs of several experts (here a token goes to one)");
  }
  if (!model.feeds_by(FeedForward::experts)) {
    list.push_back("moe_layers: no layer has the experts");
  }
  if (config.written("attention_chunk_size") == "null") {
    list.push_back("attention_chunk_size null: chunks without a size");
  }
}

void write_llama4(ForeignObject& config, const HfModel& model, Import& import) {
  const bool all_turn = std::all_of(model.layers.begin(), model.layers.end(),
                                    [](const HfLayer& layer) { return layer.rotary; });
  if (model.query_scale <= 0.0 || all_turn) return;
  take_under(config, {"attn_scale"}, "model.query_temperature_scale", model.query_scale, import);
  take_under(config, {"floor_scale"}, "model.query_temperature_floor", model.query_floor, import);
}

}  // namespace

const HfOwnKeys kHfLlama4Keys = {read_llama4, add_llama4_limits, write_llama4};

}  // namespace shardsim
