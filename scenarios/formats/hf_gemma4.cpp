#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_feature_sizes.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Gemma 4's text model alone has: full layers have wider heads, fewer of them for keys,
// and keys that are values. Names and defaults are those of Gemma4TextConfig, the meaning that of
// modular_gemma4.py, in huggingface/transformers at 008e57439125 and 033b1a82d589. A part of a head
// turns by proportional angles alone (_compute_proportional_rope_parameters of its
// modeling_rope_utils.py); those of rope_type default turn all of it.
namespace shardsim {

namespace {

constexpr std::int64_t kWideHead = 512;
constexpr double kTurnedPart = 0.25;
constexpr double kFullBase = 1e6;
constexpr double kSlidingBase = 1e4;

constexpr const char* kPart = "partial_rotary_factor";
constexpr const char* kProportional = "proportional";

// Elements of a head that turn by such angles.
std::int64_t turned_elements(ForeignObject& rope, std::int64_t head_dim, double usual_part) {
  const double part = rope.share(kPart).value_or(usual_part);
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * part) / 2 * 2;
}

bool is_proportional(ForeignObject& rope, bool is_full) {
  return rope.text("rope_type").value_or(is_full ? kProportional : "default") == kProportional;
}

void read_gemma4(ForeignObject& config, HfModel& model) {
  ForeignObject rope = config.inner("rope_parameters");
  ForeignObject full = rope.inner("full_attention");
  model.value_norm = true;
  model.rope_theta = full.number("rope_theta").value_or(kFullBase);
  ForeignObject sliding = rope.inner("sliding_attention");
  const double base = sliding.number("rope_theta").value_or(kSlidingBase);
  HeadOptions narrow = model.own_heads();
  if (is_proportional(sliding, false)) {
    narrow.rotary_dim = turned_elements(sliding, narrow.head_dim, 1.0);
  }
  if (narrow.rotary_dim > 0) model.rotary_dim = narrow.rotary_dim;
  HeadOptions wide = narrow;
  wide.head_dim = config.integer("global_head_dim", kForeignSize).value_or(kWideHead);
  wide.value_head_dim = wide.head_dim;
  wide.rotary_dim = wide.head_dim;
  if (is_proportional(full, true)) {
    const double usual = rope.has("full_attention") ? 1.0 : kTurnedPart;
    wide.rotary_dim = turned_elements(full, wide.head_dim, usual);
  }
  wide.keys_are_values = config.truth("attention_k_eq_v").value_or(false);
  const auto groups = config.integer("num_global_key_value_heads", kForeignDegree);
  if (groups && wide.keys_are_values) wide.num_query_groups = *groups;
  for (HfLayer& layer : model.layers) {
    const bool is_full = layer.attention == "full";
    layer.rope_theta = is_full || base == model.rope_theta ? 0.0 : base;
    model.give_heads(is_full ? wide : narrow, layer);
  }
}

void add_gemma4_limits(ForeignObject& config, const HfModel& model,
                       std::vector<std::string>& list) {
  if (!config.has("hidden_size_per_layer_input")) {
    list.push_back(
        "hidden_size_per_layer_input, which is not there and then 256: embeddings for each layer "
        "(" +
        layer_embeddings_size(config) + ")");
  }
  (void)config.integer("vocab_size_per_layer_input", kForeignCount);  // Their rows.
  const std::string wide = double_wide_size(config);
  if (config.truth("use_double_wide_mlp").value_or(false) && !wide.empty()) {
    list.push_back(fmt::format(
        "use_double_wide_mlp: MLPs of twice the width in layers that share keys ({})", wide));
  }
  if (config.text("use_bidirectional_attention").value_or("") == "all") {
    list.emplace_back("use_bidirectional_attention all: attention to later positions");
  }
  if (!model.layers.empty() && model.layers.back().attention != "full") {
    list.emplace_back("layer_types whose last layer is not full (transformers makes it so)");
  }
}

// Its frequencies are those of a whole head, of which the first so many turn.
void write_gemma4(ForeignObject& config, const HfModel& /*model*/, Import& import) {
  ForeignObject rope = config.inner("rope_parameters");
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    ForeignObject angles = rope.inner(kind);
    if (is_proportional(angles, std::string(kind) == "full_attention")) {
      import.ignore({angles.name_of("rope_type"), kProportional},
                    "angles of another scale than here, which cost nothing");
    } else if (angles.has(kPart)) {
      import.ignore(angles.at(kPart), "its code reads it for proportional angles alone");
    }
  }
}

}  // namespace

const HfOwnKeys kHfGemma4Keys = {read_gemma4, add_gemma4_limits, write_gemma4};

}  // namespace shardsim
