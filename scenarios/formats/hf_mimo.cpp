#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that MiMo-V2 alone has: layers with windows have heads, a rotary base and sinks of their
// own. transformers has no such model; names and meaning are those of vLLM's and MLX-LM's
// (mlx_lm/models/mimo_v2.py), which read the checkpoint's config.json. Blocks of multi-token
// prediction have windows and a dense MLP: MiMoV2MTPLayer of vLLM (mimo_v2_mtp.py at 037951aa733b).
namespace shardsim {

namespace {

constexpr const char* kPattern = "hybrid_layer_pattern";

// Heads of the layers with windows.
HeadOptions windowed_heads(ForeignObject& config, const HfModel& model) {
  HeadOptions heads = model.own_heads();
  take_hf_heads(config,
                {{"swa_num_attention_heads", &HeadOptions::num_attention_heads},
                 {"swa_num_key_value_heads", &HeadOptions::num_query_groups},
                 {"swa_head_dim", &HeadOptions::head_dim},
                 {"swa_v_head_dim", &HeadOptions::value_head_dim}},
                heads);
  if (heads.head_dim != model.head_dim) {
    const double part = config.share("partial_rotary_factor").value_or(1.0);
    heads.rotary_dim = static_cast<std::int64_t>(static_cast<double>(heads.head_dim) * part);
  }
  return heads;
}

void read_mimo(ForeignObject& config, HfModel& model) {
  model.value_dim = config.integer("v_head_dim", kForeignSize).value_or(0);
  model.value_scale = config.number("attention_value_scale").value_or(1.0);
  const HeadOptions heads = windowed_heads(config, model);
  const double base = config.number("swa_rope_theta").value_or(model.rope_theta);
  const bool has_sinks = config.truth("add_swa_attention_sink_bias").value_or(false);
  const bool full_has_sinks = config.truth("add_full_attention_sink_bias").value_or(false);
  const auto attend = [&](bool is_windowed, HfLayer& layer) {
    layer.attention = is_windowed ? "sliding" : "full";
    layer.sinks = is_windowed ? has_sinks : full_has_sinks;
    if (!is_windowed) return;
    layer.rope_theta = base == model.rope_theta ? 0.0 : base;
    model.give_heads(heads, layer);
  };
  const std::vector<double> pattern = hf_numbers_of(config, kPattern, model.num_layers);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    attend(!pattern.empty() && pattern[i] != 0.0, model.layers[i]);
  }
  HfLayer block = model.layers.back();
  block.feed_forward = FeedForward::dense;
  attend(true, block);
  model.prediction = {block};
}

// Said once here: each layer with windows has these heads.
void add_limits_of_windowed_heads(ForeignObject& config, const HfModel& model,
                                  std::vector<std::string>& list) {
  const HeadOptions heads = windowed_heads(config, model);
  if (heads.num_attention_heads % heads.num_query_groups != 0) {
    list.push_back(fmt::format("swa_num_key_value_heads {}, which do not divide {} heads",
                               heads.num_query_groups, heads.num_attention_heads));
  }
  if (heads.rotary_dim % 2 != 0) {
    list.push_back(fmt::format("swa_head_dim {}, of which {} elements turn (here they are pairs)",
                               heads.head_dim, heads.rotary_dim));
  }
}

void add_mimo_limits(ForeignObject& config, const HfModel& model, std::vector<std::string>& list) {
  if (!config.has(kPattern)) {
    list.emplace_back("hybrid_layer_pattern, which is not there: the layers that have windows");
  }
  const std::string window = config.written("sliding_window");
  for (const char* key : {"sliding_window_size", "attention_chunk_size"}) {
    if (!config.has(key) || config.written(key) == window) continue;
    list.push_back(fmt::format("{} {} beside sliding_window {}", key, config.written(key), window));
  }
  add_limits_of_windowed_heads(config, model, list);
  const std::string method = config.text("topk_method").value_or("noaux_tc");
  if (method != "noaux_tc") {
    list.push_back(fmt::format("topk_method {} (here it is noaux_tc)", method));
  }
  if (model.router.has_groups()) {
    list.push_back(fmt::format("n_group {}, topk_group {}: groups of experts (here there are none)",
                               model.router.num_groups, model.router.group_topk));
  }
}

void write_mimo(ForeignObject& /*config*/, const HfModel& /*model*/, Import& /*import*/) {}

}  // namespace

const HfOwnKeys kHfMimoKeys = {read_mimo, add_mimo_limits, write_mimo};

}  // namespace shardsim
