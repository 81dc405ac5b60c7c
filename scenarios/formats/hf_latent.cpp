#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Latent attention from Hugging Face's config.json: DeepSeek's, Kimi's and Moonlight's.
namespace shardsim {

namespace {

// Scaled rotary positions, of which the scores' factor is left here: angles cost nothing. Source:
// yarn_get_mscale and DeepseekV3Attention, transformers' models/deepseek_v3, and
// _compute_yarn_parameters, which turns by a factor of its own where the two mscales differ.
struct YarnScale {
  double scores = 1.0;  // mscale^2
  bool turns_differ = false;
};

double mscale_of(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

YarnScale yarn_scale_of(ForeignObject& config) {
  ForeignObject scaling = config.inner("rope_scaling");
  const std::string type =
      scaling.text("rope_type").value_or(scaling.text("type").value_or("default"));
  if (type != "yarn") return {};
  const double factor = scaling.number("factor").value_or(1.0);
  const double of_scores = scaling.number("mscale_all_dim").value_or(0.0);
  const double of_turns = scaling.number("mscale").value_or(of_scores);
  const double mscale = of_scores == 0.0 ? 1.0 : mscale_of(factor, of_scores);
  return {mscale * mscale, of_turns != of_scores};
}

}  // namespace

void write_hf_latent(ForeignObject& config, const HfModel& model, Import& import) {
  take_under(config, {"kv_lora_rank"}, "model.kv_lora_rank", model.key_value_rank, import);
  if (model.query_rank > 0) {
    take_under(config, {"q_lora_rank"}, "model.q_lora_rank", model.query_rank, import);
  } else {
    import.ignore(config.at("q_lora_rank"), "queries have no latent");
  }
  take_under(config, {"qk_nope_head_dim"}, "model.qk_nope_head_dim", model.nope_dim, import);
  take_under(config, {"qk_rope_head_dim"}, "model.qk_rope_head_dim", model.rope_dim, import);
  take_under(config, {"v_head_dim"}, "model.value_head_dim", model.value_dim, import);
  if (config.has("num_key_value_heads")) {
    import.ignore(config.at("num_key_value_heads"), "latent attention has a key for each query");
  }
  if (config.has("head_dim")) {
    import.ignore(config.at("head_dim"), "the sum of qk_nope_head_dim and qk_rope_head_dim is");
  }
  const double scale = yarn_scale_of(config).scores;
  if (scale == 1.0) return;
  const auto width = static_cast<double>(model.nope_dim + model.rope_dim);
  import.derive({"rope_scaling", "mscale_all_dim"}, "model.attention_scale",
                scale / std::sqrt(width),
                "mscale^2 / sqrt(elements of a head); angles cost nothing");
}

void add_hf_latent_limits(ForeignObject& config, const HfModel& model,
                          std::vector<std::string>& list) {
  if (model.nope_dim == 0 || model.rope_dim == 0 || model.value_dim == 0) {
    list.push_back(
        "latent attention without a size of qk_nope_head_dim, qk_rope_head_dim or "
        "v_head_dim");
  }
  if (model.query_bias || model.output_bias) {
    list.push_back("attention_bias: biases of latent attention");
  }
  if (yarn_scale_of(config).turns_differ) {
    list.push_back(
        "rope_scaling with mscale and mscale_all_dim that differ: rotary positions that "
        "also scale");
  }
}

}  // namespace shardsim
