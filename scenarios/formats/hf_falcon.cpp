#include <algorithm>
#include <cmath>
#include <cstddef>
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
constexpr double kLargestFactor = 1e6;

// Whether a field can say it.
bool is_sayable(double factor) { return factor > 0.0 && factor <= kLargestFactor; }

// Mamba-2's heads together: null is mamba_expand times the stream's width.
std::int64_t inner_width(ForeignObject& config, const HfModel& model) {
  const std::int64_t expand = config.integer("mamba_expand", kForeignDegree).value_or(kExpand);
  if (config.written("mamba_d_ssm").empty()) return kInnerWidth;
  return config.integer("mamba_d_ssm", kForeignSize).value_or(expand * model.hidden);
}

void read_falcon(ForeignObject& config, HfModel& model) {
  model.mamba.has_norm = config.truth("mamba_rms_norm").value_or(false);
  if (!is_sayable(model.shape.embedding_scale)) model.shape.embedding_scale = 1.0;  // It is named.
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
  double in = 1.0;
  double keys = 1.0;
  double out = 1.0;

  [[nodiscard]] double scores() const { return in * in * keys; }
  [[nodiscard]] double values() const { return in * out; }
  // Biases of queries, keys and values come behind the input's factor, and that of the output ahead
  // of the output's.
  [[nodiscard]] bool are_sayable(const HfModel& model) const {
    const bool spares_biases = in == 1.0 && out == 1.0;
    return scores() > 0.0 && values() > 0.0 && (spares_biases || !model.query_bias);
  }
};

AttentionFactors attention_factors(ForeignObject& config) {
  return {.in = factor_of(config, "attention_in_multiplier"),
          .keys = factor_of(config, "key_multiplier"),
          .out = factor_of(config, "attention_out_multiplier")};
}

// A list of factors, and the field that says each.
struct FactorList {
  const char* key;
  std::vector<const char*> paths;
  const char* common;  // One of all fields, beside their own; null: none.
};

// FalconH1MLP and compute_mup_vector. Mamba-2's input is scaled ahead of a projection without
// biases, so its factor is one of all parts.
const std::vector<FactorList>& factor_lists() {
  static const std::vector<FactorList> kLists = {
      {"mlp_multipliers", {"model.mlp_gate_scale", "model.mlp_output_scale"}, nullptr},
      {"ssm_multipliers",
       {"model.mamba_z_scale", "model.mamba_x_scale", "model.mamba_b_scale", "model.mamba_c_scale",
        "model.mamba_dt_scale"},
       "ssm_in_multiplier"}};
  return kLists;
}

// Without the common one; all are 1 where the file has no list.
std::vector<double> factors_of(ForeignObject& config, const FactorList& list) {
  if (!config.has(list.key)) return std::vector<double>(list.paths.size(), 1.0);
  return config.numbers(list.key);
}

double common_of(ForeignObject& config, const FactorList& list) {
  return list.common == nullptr ? 1.0 : factor_of(config, list.common);
}

// As many as its code reads, above 0 and up to the most that fields take.
bool is_sayable(ForeignObject& config, const FactorList& list) {
  const std::vector<double> factors = factors_of(config, list);
  const double common = common_of(config, list);
  const bool are_within = std::all_of(factors.begin(), factors.end(), [common](double each) {
    return each > 0.0 && is_sayable(each * common);
  });
  return factors.size() == list.paths.size() && are_within && common > 0.0;
}

// "ssm_in_multiplier -1", of each that changes something and that no field can say.
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
  for (const FactorList& list : factor_lists()) {
    if (is_sayable(config, list)) continue;
    unsaid.push_back(fmt::format("{} [{}]", config.name_of(list.key),
                                 fmt::join(factors_of(config, list), ", ")));
    if (list.common != nullptr) add_number(list.common);
  }
  for (const char* key : {"ssm_out_multiplier", "lm_head_multiplier", "embedding_multiplier"}) {
    if (!is_sayable(factor_of(config, key))) add_number(key);
  }
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

void write_attention_factors(ForeignObject& config, const HfModel& model, Import& import) {
  const AttentionFactors factors = attention_factors(config);
  if (!factors.are_sayable(model)) return;
  const auto cause_of = [&config](const char* key) {
    return config.at(config.has(key) ? key : "attention_in_multiplier");
  };
  if (const double scores = factors.scores(); scores != 1.0) {
    import.derive(cause_of("key_multiplier"), "model.attention_scale",
                  scores / std::sqrt(static_cast<double>(model.head_dim)),
                  "key_multiplier x attention_in_multiplier^2 / sqrt(elements of a head)");
  }
  if (const double values = factors.values(); values != 1.0) {
    import.derive(cause_of("attention_out_multiplier"), "model.value_scale", values,
                  "attention_in_multiplier x attention_out_multiplier");
  }
}

void take_factor(ForeignObject& config, const char* key, const char* path, Import& import) {
  const double factor = factor_of(config, key);
  if (factor != 1.0 && is_sayable(factor)) import.take(config.at(key), path, factor);
}

void write_factors(ForeignObject& config, Import& import) {
  for (const FactorList& list : factor_lists()) {
    if (!is_sayable(config, list)) continue;
    const std::vector<double> factors = factors_of(config, list);
    const double common = common_of(config, list);
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const double factor = common * factors[i];
      if (factor == 1.0) continue;
      const ForeignValue own = {fmt::format("{}[{}]", config.name_of(list.key), i),
                                fmt::format("{}", factors[i])};
      if (list.common == nullptr) {
        import.take(own, list.paths[i], factor);
      } else {
        import.derive(config.has(list.key) ? own : config.at(list.common), list.paths[i], factor,
                      fmt::format("{} x {}", list.common, own.name));
      }
    }
  }
  take_factor(config, "ssm_out_multiplier", "model.mamba_output_scale", import);
}

void write_falcon(ForeignObject& config, const HfModel& model, Import& import) {
  if (!model.mamba.has_norm) {
    take_under(config, {"mamba_rms_norm"}, "model.mamba_norm", false, import);
  }
  take_factor(config, "lm_head_multiplier", "model.logit_scale", import);
  if (config.has("mamba_use_mlp")) {
    import.ignore(config.at("mamba_use_mlp"), "its code in transformers does not read it");
  }
  write_attention_factors(config, model, import);
  write_factors(config, import);
}

}  // namespace

const HfOwnKeys kHfFalconKeys = {read_falcon, add_falcon_limits, write_falcon};

}  // namespace shardsim
