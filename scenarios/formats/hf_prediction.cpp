#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/linear_spec.hpp"

// Multi-token prediction of Hugging Face's files. A depth here has one block, as the last layer
// is: blocks of another kind are left out, with their size.
namespace shardsim {

namespace {

// Columns of matrices over the stream that a token meets, by the layer's mixer; a row is as wide as
// the stream.
std::int64_t mixer_columns(const HfModel& model, const HfLayer& layer) {
  if (layer.mixer == Mixer::none) return 0;
  if (layer.mixer != Mixer::attention) {
    ModelSpec spec;
    spec.hidden_size = model.hidden;
    spec.delta_net = model.delta_net;
    spec.mamba = model.mamba;
    return projection_of(spec, layer.mixer) + output_of(spec, layer.mixer);
  }
  const HeadOptions own = layer.heads.beside(model.own_heads());
  const std::int64_t values = own.keys_are_values ? 0 : own.value_head_dim;
  const std::int64_t gates = model.output_gate ? own.num_attention_heads * own.value_head_dim
                             : model.head_gate ? own.num_attention_heads
                                               : 0;
  return own.num_attention_heads * (own.head_dim + own.value_head_dim) +
         own.num_query_groups * (own.head_dim + values) + gates;
}

// Elements of matrices that a token meets in a feed-forward.
std::int64_t feed_forward_elements(const HfModel& model, FeedForward kind) {
  const std::int64_t matrices = model.shape.matrices();
  if (kind == FeedForward::none) return 0;
  if (kind == FeedForward::dense) return matrices * model.hidden * model.ffn;
  const std::int64_t row = model.latent > 0 ? model.latent : model.hidden;
  return model.hidden * (model.num_experts + (model.shared_gate ? 1 : 0)) +
         matrices *
             (model.experts_per_token * model.expert_ffn * row + model.shared_ffn * model.hidden) +
         2 * model.hidden * model.latent;
}

// The head is used once more for each depth.
std::int64_t prediction_flops(const HfModel& model) {
  std::int64_t elements = 2 * model.hidden * model.hidden + model.vocab * model.hidden;
  for (const HfLayer& block : model.prediction_blocks()) {
    elements += model.hidden * mixer_columns(model, block) +
                feed_forward_elements(model, block.feed_forward);
  }
  return 2 * elements;
}

std::string words_of(const HfLayer& block) {
  std::vector<std::string> words;
  if (block.mixer == Mixer::attention) {
    words.emplace_back(block.attention == "sliding" ? "windowed attention" : "attention");
  } else if (block.mixer != Mixer::none) {
    words.emplace_back(block.mixer == Mixer::mamba ? "Mamba-2" : "gated DeltaNet");
  }
  if (block.feed_forward != FeedForward::none) {
    words.emplace_back(block.feed_forward == FeedForward::dense ? "a dense MLP" : "experts");
  }
  return fmt::format("{}", fmt::join(words, " and "));
}

void leave_out(const ForeignValue& cause, std::int64_t depths, const HfModel& model,
               Import& import) {
  std::vector<std::string> blocks;
  for (const HfLayer& block : model.prediction_blocks()) blocks.push_back(words_of(block));
  // Latent attention has no formula here; no such model has blocks of another kind.
  const std::string flops =
      model.is_latent() ? ""
                        : fmt::format(" and {} FLOPs per token forward, the head's among them,",
                                      depths * prediction_flops(model));
  import.warn(cause, fmt::format("left out: {} parameters{} beside the model's {}, in depths of {} "
                                 "(here a depth has one block, as the last layer is)",
                                 depths * model.prediction_parameters(), flops,
                                 model.num_parameters(), fmt::join(blocks, ", ")));
}

}  // namespace

std::vector<HfLayer> HfModel::prediction_blocks() const {
  return prediction.empty() ? std::vector<HfLayer>{layers.back()} : prediction;
}

std::int64_t HfModel::prediction_parameters() const {
  std::int64_t sum = 2 * hidden * hidden + 3 * hidden;
  for (const HfLayer& block : prediction_blocks()) sum += layer_parameters(block);
  return sum;
}

// Depths of multi-token prediction, under the names of DeepSeek-V3, Qwen3-Next and MiniMax-M2.
void write_hf_prediction(ForeignObject& config, const HfModel& model, Import& import) {
  const bool is_off = !config.truth("use_mtp").value_or(true);
  (void)config.integer("mtp_transformer_layers", kForeignCount);  // Each depth has one.
  const bool is_as_last = model.prediction_blocks() == std::vector<HfLayer>{model.layers.back()};
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}) {
    const std::int64_t depths = config.integer(key, kForeignCount).value_or(0);
    if (depths == 0 || is_off) continue;
    if (!is_as_last) {
      leave_out(config.at(key), depths, model, import);
      continue;
    }
    import.derive(config.at(key), "model.mtp_num_layers", depths,
                  fmt::format("{} parameters beside the model's {}",
                              depths * model.prediction_parameters(), model.num_parameters()));
  }
}

}  // namespace shardsim
