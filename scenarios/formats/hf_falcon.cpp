#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Falcon-H1 alone has: each layer attends and has Mamba-2 beside that, of one norm, with
// fixed factors throughout. Names and defaults are those of FalconH1Config, the meaning that of
// modular_falcon_h1.py, in huggingface/transformers at 020a37d2264e and 00511f5df3b6.
namespace shardsim {

namespace {

constexpr std::int64_t kInnerWidth = 1024;
constexpr std::int64_t kExpand = 2;

// Mamba-2's heads together: null is mamba_expand times the stream's width.
std::int64_t inner_width(ForeignObject& config, const HfModel& model) {
  const std::int64_t expand = config.integer("mamba_expand", kForeignDegree).value_or(kExpand);
  if (config.written("mamba_d_ssm").empty()) return kInnerWidth;
  return config.integer("mamba_d_ssm", kForeignSize).value_or(expand * model.hidden);
}

void read_falcon(ForeignObject& config, HfModel& model) {
  model.mamba.has_norm = config.truth("mamba_rms_norm").value_or(false);
  if (config.integer("mamba_d_head", kForeignDegree)) return;
  model.mamba.head_size =
      std::max<std::int64_t>(inner_width(config, model) / model.mamba.num_heads, 1);
}

double factor_of(ForeignObject& config, const char* key) {
  return config.number(key).value_or(1.0);
}

// Those around attention, which factors of scores and of values can say. Queries and keys read the
// factor of attention's input, and so do values, whose output is scaled by another.
struct AttentionFactors {
  double scores = 1.0;
  double values = 1.0;

  // A bias comes behind the input's factor.
  [[nodiscard]] bool are_sayable(const HfModel& model) const {
    return scores > 0.0 && values > 0.0 && (values == 1.0 || !model.query_bias);
  }
};

AttentionFactors attention_factors(ForeignObject& config) {
  const double in = factor_of(config, "attention_in_multiplier");
  return {.scores = in * in * factor_of(config, "key_multiplier"),
          .values = in * factor_of(config, "attention_out_multiplier")};
}

// "ssm_in_multiplier 1.25", of each that changes something and that no field can say.
std::vector<std::string> unsaid_factors(ForeignObject& config, const HfModel& model) {
  std::vector<std::string> unsaid;
  const auto add_number = [&](const char* key) {
    const double factor = factor_of(config, key);
    if (factor != 1.0) unsaid.push_back(fmt::format("{} {}", config.name_of(key), factor));
  };
  if (!attention_factors(config).are_sayable(model)) {
    for (const char* key :
         {"key_multiplier", "attention_in_multiplier", "attention_out_multiplier"}) {
      add_number(key);
    }
  }
  for (const char* key : {"mlp_multipliers", "ssm_multipliers"}) {
    const std::vector<double> factors = config.numbers(key);
    if (std::all_of(factors.begin(), factors.end(), [](double each) { return each == 1.0; })) {
      continue;
    }
    unsaid.push_back(fmt::format("{} [{}]", config.name_of(key), fmt::join(factors, ", ")));
  }
  add_number("ssm_in_multiplier");
  add_number("ssm_out_multiplier");
  return unsaid;
}

void add_falcon_limits(ForeignObject& config, const HfModel& model,
                       std::vector<std::string>& list) {
  const std::vector<std::string> unsaid = unsaid_factors(config, model);
  if (!unsaid.empty()) {
    list.push_back(
        fmt::format("{}: fixed factors within branches (0 parameters and 0 FLOPs per token "
                    "forward; they change values)",
                    fmt::join(unsaid, ", ")));
  }
  const std::int64_t heads = model.mamba.num_heads * model.mamba.head_size;
  if (const std::int64_t inner = inner_width(config, model); inner != heads) {
    list.push_back(fmt::format("an inner width of Mamba-2 of {} beside {} heads of {}", inner,
                               model.mamba.num_heads, model.mamba.head_size));
  }
  const bool is_ahead = config.truth("mamba_norm_before_gate").value_or(true);
  if (model.mamba.has_norm && is_ahead) {
    list.emplace_back("mamba_norm_before_gate: a norm ahead of the gate (here it is behind it)");
  }
  if (config.truth("projectors_bias").value_or(false)) {
    list.push_back(
        fmt::format("projectors_bias: a bias of the projection behind Mamba-2 ({} parameters and 0 "
                    "FLOPs per token forward in each of {} layers)",
                    model.hidden, model.num_layers));
  }
  const std::string activation = config.text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    list.push_back(fmt::format("hidden_act {}, of Mamba-2, too (here it is silu)", activation));
  }
}

void write_falcon(ForeignObject& config, const HfModel& model, Import& import) {
  if (!model.mamba.has_norm) {
    take_under(config, {"mamba_rms_norm"}, "model.mamba_norm", false, import);
  }
  if (const double factor = factor_of(config, "lm_head_multiplier"); factor != 1.0) {
    import.take(config.at("lm_head_multiplier"), "model.logit_scale", factor);
  }
  if (config.has("mamba_use_mlp")) {
    import.ignore(config.at("mamba_use_mlp"), "its code in transformers does not read it");
  }
  const AttentionFactors factors = attention_factors(config);
  if (!factors.are_sayable(model)) return;
  const auto cause_of = [&config](const char* key) {
    return config.at(config.has(key) ? key : "attention_in_multiplier");
  };
  if (factors.scores != 1.0) {
    import.derive(cause_of("key_multiplier"), "model.attention_scale",
                  factors.scores / std::sqrt(static_cast<double>(model.head_dim)),
                  "key_multiplier x attention_in_multiplier^2 / sqrt(elements of a head)");
  }
  if (factors.values != 1.0) {
    import.derive(cause_of("attention_out_multiplier"), "model.value_scale", factors.values,
                  "attention_in_multiplier x attention_out_multiplier");
  }
}

}  // namespace

const HfOwnKeys kHfFalconKeys = {read_falcon, add_falcon_limits, write_falcon};

}  // namespace shardsim
