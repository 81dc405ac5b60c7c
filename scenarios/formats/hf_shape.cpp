#include "scenarios/formats/hf_shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace shardsim {

namespace {

// The choices of a family's modeling_*.py, which its file does not tell, and defaults of its
// configuration class. Source: huggingface/transformers 4.57.
struct HfShapeFamily {
  const char* model_type;
  Activation activation = Activation::swiglu;  // Without hidden_act.
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  NormKind norm = NormKind::rms;
  NormPlacement placement = NormPlacement::pre;
  bool zero_centred = false;
  bool parallel = false;
  bool scales_embedding = false;  // By sqrt(hidden_size).
  double query_scalar = 0.0;      // query_pre_attn_scalar.
  double logit_scale = 1.0;
  std::int64_t period = 0;           // See HfPattern,
  std::int64_t unturned_period = 0;  // and here.
  std::int64_t chunk = 0;
  bool full_turn = true;
  double sliding_rope_theta = 0.0;
};

constexpr std::int64_t kUsualWindow = 4096;

constexpr std::array kShapeFamilies = {
    HfShapeFamily{.model_type = "gpt_oss", .activation = Activation::clamped_swiglu},
    HfShapeFamily{.model_type = "gemma2",
                  .activation = Activation::geglu_tanh,
                  .placement = NormPlacement::sandwich,
                  .zero_centred = true,
                  .scales_embedding = true,
                  .query_scalar = 256.0,
                  .period = 2},
    HfShapeFamily{.model_type = "gemma3_text",
                  .activation = Activation::geglu_tanh,
                  .query_key_norm = QueryKeyNorm::per_head,
                  .placement = NormPlacement::sandwich,
                  .zero_centred = true,
                  .scales_embedding = true,
                  .query_scalar = 256.0,
                  .period = 6,
                  .sliding_rope_theta = 10000.0},
    HfShapeFamily{.model_type = "gemma4_text",
                  .activation = Activation::geglu_tanh,
                  .query_key_norm = QueryKeyNorm::per_head,
                  .placement = NormPlacement::sandwich,
                  .scales_embedding = true,
                  .query_scalar = 1.0,
                  .period = 6,
                  .sliding_rope_theta = 10000.0},
    HfShapeFamily{.model_type = "olmo2",
                  .query_key_norm = QueryKeyNorm::whole,
                  .placement = NormPlacement::post},
    HfShapeFamily{.model_type = "olmo3",
                  .query_key_norm = QueryKeyNorm::whole,
                  .placement = NormPlacement::post,
                  .period = 4},
    HfShapeFamily{.model_type = "exaone4",
                  .query_key_norm = QueryKeyNorm::per_head,
                  .placement = NormPlacement::post,
                  .period = 4,
                  .full_turn = false},
    HfShapeFamily{.model_type = "cohere2",
                  .norm = NormKind::layer_without_bias,
                  .parallel = true,
                  .logit_scale = 0.0625,
                  .period = 4,
                  .full_turn = false},
    HfShapeFamily{.model_type = "qwen3_next", .zero_centred = true},
    HfShapeFamily{.model_type = "qwen3_5_text", .zero_centred = true},
    HfShapeFamily{.model_type = "qwen3_5_moe_text", .zero_centred = true},
    HfShapeFamily{.model_type = "nemotron_h", .activation = Activation::squared_relu},
    HfShapeFamily{.model_type = "smollm3", .unturned_period = 4},
    HfShapeFamily{.model_type = "llama4_text", .unturned_period = 4, .chunk = 8192},
    HfShapeFamily{.model_type = "step3p5", .zero_centred = true},
    HfShapeFamily{.model_type = "step3p7", .zero_centred = true},
    HfShapeFamily{.model_type = "nemotron",
                  .activation = Activation::squared_relu,
                  .norm = NormKind::layer,
                  .zero_centred = true},
};

const HfShapeFamily& family_of(const std::string& model_type) {
  static constexpr HfShapeFamily kPlain{.model_type = ""};
  const auto* const found =
      std::find_if(kShapeFamilies.begin(), kShapeFamilies.end(),
                   [&](const auto& each) { return model_type == each.model_type; });
  return found == kShapeFamilies.end() ? kPlain : *found;
}

std::string written_activation(ForeignObject& config) {
  std::string written;
  for (const char* key : {"mlp_hidden_act", "hidden_act", "hidden_activation"}) {
    if (const auto name = config.text(key)) written = *name;  // Gemma's has two: the last counts.
  }
  return written;
}

// With the gate that the family has.
std::optional<Activation> activation_of(const std::string& name, const HfShapeFamily& family) {
  const bool is_gated = ActivationForm{.kind = family.activation}.is_gated();
  const bool is_clamped = family.activation == Activation::clamped_swiglu;
  if (name.empty()) return family.activation;
  if (name == "silu" || name == "swish") {
    if (is_clamped) return family.activation;
    if (is_gated) return Activation::swiglu;
  }
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") {
    return is_gated ? Activation::geglu_tanh : Activation::gelu_tanh;
  }
  if (name == "relu2" && !is_gated) return Activation::squared_relu;
  return std::nullopt;
}

}  // namespace

std::int64_t HfShape::norms(std::int64_t hidden) const {
  const std::int64_t each = placement == NormPlacement::sandwich ? 2 : 1;
  return each * (norm == NormKind::layer ? 2 * hidden : hidden);
}

HfShape read_hf_shape(ForeignObject& config, const std::string& model_type, std::int64_t hidden) {
  const HfShapeFamily& family = family_of(model_type);
  constexpr double kClamp = 7.0;  // GptOssExperts.
  HfShape shape;
  shape.activation = activation_of(written_activation(config), family).value_or(family.activation);
  if (shape.activation == Activation::clamped_swiglu) {
    shape.swiglu_limit = config.number("swiglu_limit").value_or(kClamp);
  }
  shape.query_key_norm = family.query_key_norm;
  shape.norm = family.norm;
  shape.placement = family.placement;
  shape.zero_centred = family.zero_centred;
  shape.parallel = family.parallel;
  if (family.scales_embedding) shape.embedding_scale = std::sqrt(static_cast<double>(hidden));
  if (const auto factor = config.number("embedding_multiplier")) shape.embedding_scale = *factor;
  shape.residual_scale = config.number("residual_multiplier").value_or(1.0);
  shape.logit_scale = config.number("logit_scale").value_or(family.logit_scale);
  if (const auto divisor = config.number("logits_scaling")) shape.logit_scale = 1.0 / *divisor;
  shape.attention_scale = config.number("attention_multiplier").value_or(0.0);
  const double scalar = config.number("query_pre_attn_scalar").value_or(family.query_scalar);
  if (scalar > 0.0) shape.attention_scale = 1.0 / std::sqrt(scalar);
  shape.attention_cap = config.number("attn_logit_softcapping").value_or(0.0);
  shape.final_cap = config.number("final_logit_softcapping").value_or(0.0);
  return shape;
}

void write_hf_shape(ForeignObject& config, const std::string& model_type, const HfShape& shape,
                    Import& import) {
  const ForeignValue family = {"model_type", model_type};
  const auto choose = [&](const char* path, const auto& value, const auto& usual) {
    if (value != usual) import.derive(family, path, std::string(to_string(value)));
  };
  const auto scale = [&](const std::vector<const char*>& keys, const char* path, double value,
                         double usual) {
    if (value == usual) return;
    for (const char* key : keys) {
      if (config.has(key)) return import.derive(config.at(key), path, value);
    }
    import.derive(family, path, value);
  };
  choose("model.activation", shape.activation, Activation::swiglu);
  if (shape.activation == Activation::clamped_swiglu) {
    scale({"swiglu_limit"}, "model.swiglu_limit", shape.swiglu_limit, 0.0);
  }
  choose("model.query_key_norm", shape.query_key_norm, QueryKeyNorm::none);
  choose("model.norm_kind", shape.norm, NormKind::rms);
  choose("model.norm_placement", shape.placement, NormPlacement::pre);
  if (shape.zero_centred) import.derive(family, "model.norm_zero_centred", true);
  if (shape.parallel) import.derive(family, "model.parallel_block", true);
  scale({"embedding_multiplier"}, "model.embedding_scale", shape.embedding_scale, 1.0);
  scale({"residual_multiplier"}, "model.residual_scale", shape.residual_scale, 1.0);
  scale({"logit_scale", "logits_scaling"}, "model.logit_scale", shape.logit_scale, 1.0);
  scale({"attention_multiplier", "query_pre_attn_scalar"}, "model.attention_scale",
        shape.attention_scale, 0.0);
  scale({"attn_logit_softcapping"}, "model.attention_logit_cap", shape.attention_cap, 0.0);
  scale({"final_logit_softcapping"}, "model.final_logit_cap", shape.final_cap, 0.0);
}

void add_hf_shape_limits(ForeignObject& config, const std::string& model_type,
                         std::vector<std::string>& list) {
  const HfShapeFamily& family = family_of(model_type);
  const std::string activation = written_activation(config);
  if (!activation_of(activation, family)) {
    list.push_back(
        fmt::format("activation {} (here it is {})", activation, to_string(family.activation)));
  }
  if (family.activation != Activation::clamped_swiglu && config.number("swiglu_limit")) {
    list.push_back(fmt::format("swiglu_limit {}: a clamped SwiGLU of another family than GPT-OSS",
                               config.written("swiglu_limit")));
  }
}

HfPattern read_hf_pattern(ForeignObject& config, const std::string& model_type) {
  const HfShapeFamily& family = family_of(model_type);
  HfPattern pattern{.period = family.period,
                    .full_turn = family.full_turn,
                    .unturned_period = family.unturned_period,
                    .chunk = family.chunk};
  if (family.period == 0) return pattern;
  // EXAONE 4's small models have no windows, and rotary positions everywhere.
  if (model_type == "exaone4" && !config.has("sliding_window")) return {};
  pattern.window = kUsualWindow;
  const JsonValue* written = config.find("sliding_window_pattern");
  if (written != nullptr && written->is_string()) {  // "LLLG": local, local, local, global.
    pattern.period = std::max<std::int64_t>(1, static_cast<std::int64_t>(written->string().size()));
  } else if (written != nullptr) {
    pattern.period =
        config.integer("sliding_window_pattern", kForeignDegree).value_or(family.period);
  }
  if (family.sliding_rope_theta > 0.0) {
    pattern.sliding_rope_theta =
        config.number("rope_local_base_freq").value_or(family.sliding_rope_theta);
  }
  return pattern;
}

}  // namespace shardsim
