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
// modular_gemma4.py, in huggingface/transformers at 008e57439125 and 033b1a82d589.
namespace shardsim {

namespace {

constexpr std::int64_t kWideHead = 512;
constexpr double kTurnedPart = 0.25;
constexpr double kFullBase = 1e6;
constexpr double kSlidingBase = 1e4;

void read_gemma4(ForeignObject& config, HfModel& model) {
  ForeignObject rope = config.inner("rope_parameters");
  ForeignObject full = rope.inner("full_attention");
  model.value_norm = true;
  model.rope_theta = full.number("rope_theta").value_or(kFullBase);
  const double base = rope.inner("sliding_attention").number("rope_theta").value_or(kSlidingBase);
  const double part = full.share("partial_rotary_factor").value_or(kTurnedPart);
  HeadOptions wide = model.own_heads();
  wide.head_dim = config.integer("global_head_dim", kForeignSize).value_or(kWideHead);
  wide.value_head_dim = wide.head_dim;
  wide.rotary_dim = static_cast<std::int64_t>(static_cast<double>(wide.head_dim) * part) / 2 * 2;
  wide.keys_are_values = config.truth("attention_k_eq_v").value_or(false);
  const auto groups = config.integer("num_global_key_value_heads", kForeignDegree);
  if (groups && wide.keys_are_values) wide.num_query_groups = *groups;
  for (HfLayer& layer : model.layers) {
    const bool is_full = layer.attention == "full";
    layer.rope_theta = is_full || base == model.rope_theta ? 0.0 : base;
    if (is_full) model.give_heads(wide, layer);
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
  ForeignObject full = config.inner("rope_parameters").inner("full_attention");
  if (full.text("rope_type").value_or("proportional") != "proportional") return;
  import.ignore({full.name_of("rope_type"), "proportional"},
                "angles of another scale than here, which cost nothing");
}

}  // namespace

const HfOwnKeys kHfGemma4Keys = {read_gemma4, add_gemma4_limits, write_gemma4};

}  // namespace shardsim
