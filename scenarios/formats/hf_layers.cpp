#include "scenarios/formats/hf_layers.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "scenarios/formats/hf_shape.hpp"
#include "scenarios/formats/layer_pattern.hpp"

namespace shardsim {

namespace {

const std::vector<JsonValue>* list_of(ForeignObject& config, const std::string& key,
                                      std::int64_t num_layers) {
  const JsonValue* list = config.find(key);
  if (list == nullptr || !list->is_array() || list->array().empty()) return nullptr;
  const auto length = static_cast<std::int64_t>(list->array().size());
  const std::int64_t depths = config.integer("num_nextn_predict_layers", kForeignCount).value_or(0);
  // Blocks of multi-token prediction come behind the layers.
  if (length != num_layers && length != num_layers + depths) {
    config.refuse(
        "E1346", key,
        fmt::format("{} has {} entries for {} layers", config.name_of(key), length, num_layers),
        "take the config.json of the checkpoint itself");
  }
  return &list->array();
}

// Kinds of layer_types, and the attention of model.layers.
constexpr std::array<std::pair<const char*, const char*>, 3> kKinds = {
    {{"full_attention", "full"},
     {"sliding_attention", "sliding"},
     {"chunked_attention", "chunked"}}};

// Null: no attention of model.layers.
const char* attention_of(const std::string& kind) {
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(),
                                         [&](const auto& each) { return kind == each.first; });
  return found == kKinds.end() ? nullptr : found->second;
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

}  // namespace

void add_unknown_hf_layers(ForeignObject& config, std::vector<std::string>& list) {
  const JsonValue* kinds = config.find("layer_types");
  if (kinds == nullptr || !kinds->is_array()) return;
  std::set<std::string> others;
  for (const JsonValue& kind : kinds->array()) {
    if (kind.is_string() && attention_of(kind.string()) == nullptr) others.insert(kind.string());
  }
  for (const std::string& kind : others) {
    list.push_back("layers of " + kind + " (layers here attend to earlier positions)");
  }
}

std::vector<HfLayer> read_hf_layers(ForeignObject& config, const std::string& model_type,
                                    std::int64_t num_layers, bool sinks) {
  std::vector<HfLayer> layers(static_cast<std::size_t>(num_layers));
  for (HfLayer& layer : layers) layer.sinks = sinks;
  const HfPattern pattern = read_hf_pattern(config, model_type);
  if (const auto* kinds = list_of(config, "layer_types", num_layers)) {
    (void)config.truth("use_sliding_window");  // The list says which layers have it.
    (void)config.integer("max_window_layers", {0, 1LL << 31});
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const JsonValue& kind = kinds->at(i);
      const char* const ours = kind.is_string() ? attention_of(kind.string()) : nullptr;
      if (ours != nullptr) layers[i].attention = ours;  // The others have been refused.
    }
  } else if (pattern.period > 0) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((static_cast<std::int64_t>(i) + 1) % pattern.period != 0) layers[i].attention = "sliding";
    }
  } else {
    read_windows(config, model_type, layers);
  }
  for (HfLayer& layer : layers) {
    const bool is_full = layer.attention == "full";
    if (is_full) layer.rotary = pattern.full_turn;
    if (!is_full) layer.rope_theta = pattern.sliding_rope_theta;
  }
  if (const auto* bases = list_of(config, "rope_theta", num_layers)) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const double base = bases->at(i).number().value_or(0.0);
      if (base != bases->front().number().value_or(0.0)) layers[i].rope_theta = base;
    }
  }
  // Its ones are the layers that have rotary positions.
  if (const auto* rotary = list_of(config, "no_rope_layers", num_layers)) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i].rotary = rotary->at(i).number().value_or(1.0) != 0.0;
    }
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
  return layers;
}

void write_hf_layers(ForeignObject& config, const std::vector<HfLayer>& layers,
                     const std::string& model_type, Import& import) {
  if (std::all_of(layers.begin(), layers.end(),
                  [](const HfLayer& layer) { return layer == HfLayer{}; })) {
    return;
  }
  const std::int64_t window = config.integer("sliding_window", kForeignNumber)
                                  .value_or(read_hf_pattern(config, model_type).window);
  const std::int64_t chunk = config.integer("attention_chunk_size", kForeignNumber)
                                 .value_or(read_hf_pattern(config, model_type).chunk);
  std::vector<ImportItem> items;
  for (const HfLayer& layer : layers) {
    ImportItem& item = items.emplace_back();
    if (layer.attention != "full") item.emplace_back("attention", layer.attention);
    if (layer.attention == "sliding") item.emplace_back("window_size", window);
    if (layer.attention == "chunked") item.emplace_back("chunk_size", chunk);
    if (!layer.rotary) item.emplace_back("rotary", false);
    if (layer.sinks) item.emplace_back("sinks", true);
    if (!layer.feed_forward.empty()) item.emplace_back("feed_forward", layer.feed_forward);
    if (layer.rope_theta > 0.0) item.emplace_back("rope_theta", layer.rope_theta);
  }
  const char* const cause = config.has("layer_types")      ? "layer_types"
                            : config.has("no_rope_layers") ? "no_rope_layers"
                            : config.has("sliding_window") ? "sliding_window"
                                                           : "no_rope_layer_interval";
  std::string causes = cause;
  for (const char* key : {"interleave_moe_layer_step", "moe_layers", "moe_layers_enum"}) {
    const bool is_listed = !layers.front().feed_forward.empty();
    if (is_listed && config.has(key)) causes += std::string(", ") + key;
  }
  write_layers({causes, fmt::format("of {} layers", layers.size())}, items, import);
}

}  // namespace shardsim
