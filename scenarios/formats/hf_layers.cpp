#include "scenarios/formats/hf_layers.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "scenarios/enumerations.hpp"
#include "scenarios/formats/hf_shape.hpp"
#include "scenarios/formats/layer_pattern.hpp"

namespace shardsim {

namespace {

// Kinds of layer_types, and the attention of model.layers.
constexpr std::array<std::pair<const char*, const char*>, 3> kKinds = {
    {{"full_attention", "full"},
     {"sliding_attention", "sliding"},
     {"chunked_attention", "chunked"}}};

// Letters of hybrid_override_pattern, and the names that layers_block_type has for them. Source:
// NemotronHConfig of transformers.
constexpr std::array<std::pair<char, const char*>, 4> kLetters = {
    {{'M', "mamba"}, {'*', "attention"}, {'-', "mlp"}, {'E', "moe"}}};

// Nothing: no scenario has such layers. The feed-forward of a layer with two branches is open.
std::optional<HfLayer> layer_of(const std::string& kind, const HfFamily& family) {
  HfLayer layer;
  if (family.one_branch) layer.feed_forward = FeedForward::none;
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(),
                                         [&](const auto& each) { return kind == each.first; });
  if (found != kKinds.end()) {
    layer.attention = found->second;
    return layer;
  }
  if (family.both_mixers) {
    layer.mixer = Mixer::attention_mamba;
    return kind == "hybrid" ? std::optional(layer) : std::nullopt;
  }
  if (family.linear == Mixer::none) return std::nullopt;
  if (kind == "attention") return layer;
  if (kind == "linear_attention" || (kind == "mamba" && family.linear == Mixer::mamba)) {
    layer.mixer = family.linear;
    return layer;
  }
  if (!family.one_branch || (kind != "mlp" && kind != "moe")) return std::nullopt;
  layer.mixer = Mixer::none;
  layer.feed_forward = kind == "moe" ? FeedForward::experts : FeedForward::dense;
  return layer;
}

std::vector<std::string> names_of_letters(ForeignObject& config, const std::string& key) {
  std::vector<std::string> names;
  for (const char letter : config.text(key).value_or("")) {
    const auto* const found = std::find_if(kLetters.begin(), kLetters.end(),
                                           [&](const auto& each) { return letter == each.first; });
    if (found == kLetters.end()) {
      config.refuse(
          "E1346", key,
          fmt::format("{} has the letter \"{}\", which is no layer", config.name_of(key), letter),
          "M is Mamba-2, * attention, - an MLP, and E experts");
    }
    names.emplace_back(found->second);
  }
  return names;
}

std::vector<std::string> names_of_list(const std::vector<JsonValue>& list) {
  std::vector<std::string> names;
  for (const JsonValue& kind : list) {
    names.push_back(kind.is_string() ? kind.string() : describe(kind));
  }
  return names;
}

// NemotronHConfig's own are attention and experts (transformers, configuration_nemotron_h.py).
HfKinds find_hf_prediction_kinds(ForeignObject& config, const HfFamily& family) {
  if (!family.one_branch) return {};
  if (const auto* list = config.list("mtp_layers_block_type")) {
    return {"mtp_layers_block_type", names_of_list(*list)};
  }
  constexpr const char* kPattern = "mtp_hybrid_override_pattern";
  const std::vector<std::string> names = names_of_letters(config, kPattern);
  if (!names.empty()) return {kPattern, names};
  return {"", {"attention", "moe"}};
}

void refuse_count(ForeignObject& config, const std::string& key, std::size_t entries,
                  std::int64_t num_layers) {
  const auto listed = static_cast<std::int64_t>(entries);
  const std::int64_t depths = config.integer("num_nextn_predict_layers", kForeignCount).value_or(0);
  // Blocks of multi-token prediction come behind the layers.
  if (listed == num_layers || listed == num_layers + depths) return;
  config.refuse(
      "E1346", key,
      fmt::format("{} has {} entries for {} layers", config.name_of(key), entries, num_layers),
      "take the config.json of the checkpoint itself");
}

// Qwen2's and its relatives' lower layers see everything: use_sliding_window, max_window_layers.
void read_windows(ForeignObject& config, const std::string& model_type,
                  std::vector<HfLayer>& layers) {
  constexpr ForeignRange kPositions{1, 1LL << 31};
  if (!config.integer("sliding_window", kPositions)) return;
  const bool has_switch = model_type.rfind("qwen", 0) == 0 || model_type == "smollm3";
  if (!config.truth("use_sliding_window").value_or(!has_switch)) return;
  const std::int64_t first = config.integer("max_window_layers", {0, 1LL << 31}).value_or(0);
  for (std::size_t i = static_cast<std::size_t>(first); i < layers.size(); ++i) {
    layers[i].attention = "sliding";
  }
}

// As transformers fills in a list that is not there.
std::string usual_kind(ForeignObject& config, const HfFamily& family, std::size_t layer) {
  if (family.both_mixers) return "hybrid";
  if (family.linear != Mixer::delta_net) return "mamba";
  constexpr std::int64_t kInterval = 4;  // Qwen3NextConfig's own.
  const std::int64_t every =
      config.integer("full_attention_interval", kForeignDegree).value_or(kInterval);
  const bool is_full = (static_cast<std::int64_t>(layer) + 1) % every == 0;
  return is_full ? "full_attention" : "linear_attention";
}

void read_kinds(ForeignObject& config, const HfFamily& family, std::vector<HfLayer>& layers) {
  const HfKinds kinds = find_hf_kinds(config, family);
  (void)config.integer("full_attention_interval", kForeignDegree);  // A list was made from it.
  if (!kinds.key.empty()) {
    refuse_count(config, kinds.key, kinds.names.size(), static_cast<std::int64_t>(layers.size()));
    (void)config.truth("use_sliding_window");  // The list says which layers have it.
    (void)config.integer("max_window_layers", {0, 1LL << 31});
  }
  const HfPattern pattern = read_hf_pattern(config, family.model_type);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_listed = !kinds.key.empty();
    if (is_listed || family.linear != Mixer::none) {
      const std::string kind = is_listed ? kinds.names[i] : usual_kind(config, family, i);
      layers[i] = layer_of(kind, family).value_or(layers[i]);  // The others have been refused.
    } else if (pattern.period > 0) {
      if ((static_cast<std::int64_t>(i) + 1) % pattern.period != 0) layers[i].attention = "sliding";
    }
  }
  if (kinds.key.empty() && pattern.period == 0 && family.linear == Mixer::none) {
    read_windows(config, family.model_type, layers);
  }
  for (HfLayer& layer : layers) {
    const bool is_full = layer.attention == "full";
    if (is_full) layer.rotary = pattern.full_turn;
    if (!is_full) layer.rope_theta = pattern.sliding_rope_theta;
  }
}

void read_rotary(ForeignObject& config, const HfFamily& family, std::vector<HfLayer>& layers) {
  const auto num_layers = static_cast<std::int64_t>(layers.size());
  const HfPattern pattern = read_hf_pattern(config, family.model_type);
  if (config.has_list("rope_theta")) {
    const std::vector<double> bases = hf_numbers_of(config, "rope_theta", num_layers);
    for (std::size_t i = 0; i < layers.size() && !bases.empty(); ++i) {
      if (bases[i] != bases.front()) layers[i].rope_theta = bases[i];
    }
  }
  // Its ones are the layers that have rotary positions.
  const std::vector<double> rotary = hf_numbers_of(config, "no_rope_layers", num_layers);
  if (!rotary.empty()) {
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].rotary = rotary[i] != 0.0;
    (void)config.integer("no_rope_layer_interval", kForeignDegree);  // The list was made from it.
  } else if (config.has("no_rope_layer_interval") || pattern.unturned_period > 0) {
    const std::int64_t every = config.integer("no_rope_layer_interval", kForeignDegree)
                                   .value_or(std::max<std::int64_t>(pattern.unturned_period, 1));
    for (std::int64_t i = every - 1; i < num_layers; i += every) {
      layers[static_cast<std::size_t>(i)].rotary = false;
    }
  }
  if (pattern.chunk > 0 && !config.has("layer_types")) {
    for (HfLayer& layer : layers) {
      if (layer.rotary) layer.attention = "chunked";
    }
  }
  if (family.rotary || config.text("position_embedding_type").value_or("") == "rope") return;
  for (HfLayer& layer : layers) layer.rotary = false;
}

void add_heads(const HeadOptions& heads, ImportItem& item) {
  struct Size {
    const char* key;
    std::int64_t value;
  };
  for (const Size& size :
       {Size{"num_attention_heads", heads.num_attention_heads},
        Size{"num_query_groups", heads.num_query_groups}, Size{"head_dim", heads.head_dim},
        Size{"value_head_dim", heads.value_head_dim}, Size{"rotary_dim", heads.rotary_dim}}) {
    if (size.value > 0) item.emplace_back(size.key, size.value);
  }
  if (heads.keys_are_values) item.emplace_back("keys_are_values", true);
}

bool is_usual(const HfLayer& layer) {
  HfLayer usual;
  usual.feed_forward = layer.feed_forward;
  return layer == usual;
}

// The key that says that layers differ: in their mixers, or else in their feed-forwards.
std::string cause_of(ForeignObject& config, const std::vector<HfLayer>& layers,
                     const HfFamily& family) {
  if (std::all_of(layers.begin(), layers.end(), is_usual)) {
    return cause_of_hf_expert_layers(config);
  }
  const std::string list = find_hf_kinds(config, family).key;
  if (!list.empty()) return list;
  for (const char* key : {"hybrid_layer_pattern", "full_attention_interval", "no_rope_layers",
                          "sliding_window", "no_rope_layer_interval"}) {
    if (config.has(key)) return key;
  }
  return "model_type";
}

}  // namespace

void take_hf_heads(ForeignObject& object, std::initializer_list<HfHeadKey> keys,
                   HeadOptions& heads) {
  for (const HfHeadKey& each : keys) {
    heads.*each.size = object.integer(each.key, kForeignSize).value_or(heads.*each.size);
  }
}

const std::vector<JsonValue>* hf_list_of(ForeignObject& config, const std::string& key,
                                         std::int64_t num_layers) {
  const auto* list = config.list(key);
  if (list == nullptr || list->empty()) return nullptr;
  refuse_count(config, key, list->size(), num_layers);
  return list;
}

std::vector<double> hf_numbers_of(ForeignObject& config, const std::string& key,
                                  std::int64_t num_layers) {
  if (hf_list_of(config, key, num_layers) == nullptr) return {};
  return config.numbers(key);
}

HfKinds find_hf_kinds(ForeignObject& config, const HfFamily& family) {
  HfKinds kinds;
  const bool has_pattern = family.one_branch && config.has("hybrid_override_pattern");
  for (const char* key : {"layers_block_type", "layer_types"}) {
    const bool is_asked = family.linear != Mixer::none || std::string(key) == "layer_types";
    const auto* list = is_asked && kinds.key.empty() ? config.list(key) : nullptr;
    if (list != nullptr) kinds = {key, names_of_list(*list)};
  }
  if (!kinds.key.empty() || !has_pattern) return kinds;
  return {"hybrid_override_pattern", names_of_letters(config, "hybrid_override_pattern")};
}

std::vector<HfLayer> read_hf_prediction(ForeignObject& config, const HfFamily& family,
                                        const HfLayer& last) {
  std::vector<HfLayer> blocks;
  for (const std::string& kind : find_hf_prediction_kinds(config, family).names) {
    HfLayer block = layer_of(kind, family).value_or(last);  // The others have been refused.
    if (block.mixer == Mixer::attention) block.rotary = family.rotary;
    blocks.push_back(block);
  }
  if (!blocks.empty() || family.linear != Mixer::delta_net) return blocks;
  HfLayer block;
  block.feed_forward = last.feed_forward;
  return {block};
}

void add_hf_layer_limits(ForeignObject& config, const HfFamily& family,
                         std::vector<std::string>& list) {
  std::set<std::string> others;
  for (const std::string& kind : find_hf_kinds(config, family).names) {
    if (!layer_of(kind, family)) others.insert(kind);
  }
  for (const std::string& kind : others) {
    list.push_back("layers of " + kind + " (layers here attend to earlier positions)");
  }
  if (config.integer("num_nextn_predict_layers", kForeignCount).value_or(0) > 0) {
    for (const std::string& kind : find_hf_prediction_kinds(config, family).names) {
      if (!layer_of(kind, family)) list.push_back("multi-token prediction by layers of " + kind);
    }
  }
  const auto* blocks = config.list("mlp_layer_types");
  if (blocks == nullptr) return;
  std::set<std::string> unknown;
  for (const std::string& kind : names_of_list(*blocks)) {
    if (kind != "dense" && kind != "sparse") unknown.insert(kind);
  }
  for (const std::string& kind : unknown) {
    list.push_back("mlp_layer_types " + kind + " (here a layer is dense or sparse)");
  }
}

std::vector<HfLayer> read_hf_layers(ForeignObject& config, const HfFamily& family,
                                    std::int64_t num_layers, bool with_experts) {
  std::vector<HfLayer> layers(static_cast<std::size_t>(num_layers));
  read_kinds(config, family, layers);
  read_rotary(config, family, layers);
  for (HfLayer& layer : layers) {
    if (has_mixer(layer.mixer, Mixer::attention)) {
      layer.sinks = family.gpt_oss;
    } else {
      layer.rotary = true;  // It has none, so there is nothing to say of them.
    }
  }
  if (with_experts && !family.one_branch) read_hf_expert_layers(config, layers);
  return layers;
}

void write_hf_layers(ForeignObject& config, const std::vector<HfLayer>& layers,
                     const HfFamily& family, Import& import) {
  const std::int64_t dense = leading_dense_layers(layers);
  const auto num_layers = static_cast<std::int64_t>(layers.size());
  // Without experts all are dense, and with one branch the list says it.
  const bool lists_experts = family.one_branch || dense < 0;
  if (!lists_experts && dense > 0 && dense < num_layers) {
    const std::string cause = cause_of_hf_expert_layers(config);
    const bool is_count = config.written(cause) == std::to_string(dense);
    if (is_count) import.take(config.at(cause), "model.first_dense_layers", dense);
    if (!is_count) import.derive({cause, ""}, "model.first_dense_layers", dense);
  }
  const std::int64_t window = config.integer("sliding_window", kForeignNumber)
                                  .value_or(read_hf_pattern(config, family.model_type).window);
  const std::int64_t chunk = config.integer("attention_chunk_size", kForeignNumber)
                                 .value_or(read_hf_pattern(config, family.model_type).chunk);
  std::vector<ImportItem> items;
  for (const HfLayer& layer : layers) {
    ImportItem& item = items.emplace_back();
    if (layer.mixer != Mixer::attention)
      item.emplace_back("mixer", std::string(to_string(layer.mixer)));
    if (layer.attention != "full") item.emplace_back("attention", layer.attention);
    if (layer.attention == "sliding") item.emplace_back("window_size", window);
    if (layer.attention == "chunked") item.emplace_back("chunk_size", chunk);
    if (!layer.rotary) item.emplace_back("rotary", false);
    if (layer.sinks) item.emplace_back("sinks", true);
    if (layer.rope_theta > 0.0) item.emplace_back("rope_theta", layer.rope_theta);
    add_heads(layer.heads, item);
    if (lists_experts) {
      item.emplace_back("feed_forward", std::string(to_string(layer.feed_forward)));
    }
  }
  write_layers({cause_of(config, layers, family), fmt::format("of {} layers", layers.size())},
               items, import);
}

}  // namespace shardsim
