#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "strategies/model/layer_options.hpp"

#include "scenarios/enumerations.hpp"
#include "scenarios/formats/layer_pattern.hpp"
#include "scenarios/formats/megatron_model.hpp"
#include "scenarios/scenario_error.hpp"

// The layers of a run of Megatron-LM one by one. Frequencies have phases of their own: experts are
// in layer 0 and each N-th from there on; the last layer of each N sees everything, has no rotary
// positions, or attends where the others are gated DeltaNet. Sources: get_moe_layer_pattern,
// is_layer_window_attention, TransformerConfig.__post_init__ and get_linear_attention_pattern.
namespace shardsim {

namespace {

struct MegatronLayer {
  Mixer mixer = Mixer::attention;
  FeedForward feed_forward = FeedForward::automatic;
  std::int64_t window = 0;
  bool rotary = true;
  bool sinks = false;
};

// The layers, and the arguments that made them.
struct LayerReading {
  MegatronArguments& arguments;
  std::vector<std::string>& limits;
  std::vector<MegatronLayer> layers;
  std::vector<std::string> causes;

  [[nodiscard]] std::int64_t num_layers() const { return static_cast<std::int64_t>(layers.size()); }

  // For each layer, what an argument says of it. Nothing if it is not there, or is refused.
  std::optional<std::vector<bool>> frequency(const char* name, LayerPhase phase) {
    const auto text = arguments.text(name);
    if (!text) return std::nullopt;
    auto list = read_frequency(*text, num_layers(), phase);
    if (!list) {
      limits.push_back(fmt::format(
          "{} {} (here a number, or lists of 0 and 1 with an entry for each of {} layers)", name,
          *text, num_layers()));
    }
    return list;
  }
};

// "(127,0)": positions before a position, and behind it. -1: all.
std::optional<std::pair<std::int64_t, std::int64_t>> window_of(const std::string& text) {
  std::string plain;
  for (const char letter : text) {
    if (std::string_view(" ()[]'\"").find(letter) == std::string_view::npos) plain += letter;
  }
  std::pair<std::int64_t, std::int64_t> sides;
  const char* const end = plain.data() + plain.size();
  const auto left = std::from_chars(plain.data(), end, sides.first);
  if (left.ec != std::errc() || left.ptr == end || *left.ptr != ',') return std::nullopt;
  const auto right = std::from_chars(left.ptr + 1, end, sides.second);
  if (right.ec != std::errc() || right.ptr != end) return std::nullopt;
  return sides;
}

void read_windows(LayerReading& reading) {
  const std::string name = megatron::kWindow;
  const auto text = reading.arguments.text(name);
  if (!text) {
    (void)reading.arguments.text(megatron::kWindowFrequency);  // No window reads it.
    return;
  }
  const auto sides = window_of(*text);
  if (!sides || sides->first < -1 || sides->first >= kForeignSize.most ||
      (sides->second != 0 && sides->first >= 0)) {
    reading.limits.push_back(
        fmt::format("{} {} (here positions before a position, and 0 behind it)", name, *text));
    return;
  }
  const bool is_endless = sides->first < 0;
  const auto list = reading.frequency(megatron::kWindowFrequency, LayerPhase::all_but_last_of_each);
  if (is_endless) return;
  reading.causes.push_back(name);
  if (list) reading.causes.emplace_back(megatron::kWindowFrequency);
  for (std::size_t i = 0; i < reading.layers.size(); ++i) {
    if (!list || (*list)[i]) reading.layers[i].window = sides->first + 1;
  }
}

// Latent attention turns a part of each key, whatever these arguments say.
void read_positions(LayerReading& reading, const MegatronBlocks& blocks, bool is_latent) {
  const char* const name = megatron::kNoRotaryFrequency;
  const std::string written = reading.arguments.written(name);
  const bool is_off = written == "0";
  const auto skipped = is_off ? std::nullopt : reading.frequency(name, LayerPhase::last_of_each);
  if (is_off) (void)reading.arguments.text(name);
  if (is_latent) return;
  if (blocks.without_positions) reading.causes.emplace_back("position_embedding_type");
  // A number must divide the layers.
  std::int64_t every = 0;
  const char* const end = written.data() + written.size();
  const bool is_number = std::from_chars(written.data(), end, every).ptr == end && every > 0;
  if (skipped && is_number && reading.num_layers() % every != 0) {
    reading.limits.push_back(
        fmt::format("{} {}, which does not divide {} layers", name, written, reading.num_layers()));
  }
  if (skipped) reading.causes.emplace_back(name);
  for (std::size_t i = 0; i < reading.layers.size(); ++i) {
    const bool is_skipped = skipped && (*skipped)[i];
    reading.layers[i].rotary = !is_skipped && !blocks.without_positions;
  }
}

void read_sinks(LayerReading& reading, bool is_latent) {
  const std::string type = reading.arguments.text(megatron::kSoftmax).value_or("vanilla");
  if (type == "vanilla") return;
  if (type != "learnable" || is_latent) {
    reading.limits.push_back(fmt::format("{} {}{} (here sinks are trained, of plain attention)",
                                         megatron::kSoftmax, type,
                                         is_latent ? " with latent attention" : ""));
    return;
  }
  reading.causes.emplace_back(megatron::kSoftmax);
  for (MegatronLayer& layer : reading.layers) layer.sinks = true;
}

MegatronLayer layer_of(char letter) {
  switch (letter) {
    case 'M':
      return {.mixer = Mixer::mamba, .feed_forward = FeedForward::none};
    case 'G':
      return {.mixer = Mixer::delta_net, .feed_forward = FeedForward::none};
    case '-':
      return {.mixer = Mixer::none, .feed_forward = FeedForward::dense};
    case 'E':
      return {.mixer = Mixer::none, .feed_forward = FeedForward::experts};
    default:
      return {.feed_forward = FeedForward::none};
  }
}

// Whether G and the variant are this gated DeltaNet; else it is refused.
bool is_known_variant(LayerReading& reading, const std::string& variant) {
  if (variant == megatron::kDeltaNet || variant == "gdn") return true;
  reading.limits.push_back(
      fmt::format("{} {} (here it is {})", megatron::kVariant, variant, megatron::kDeltaNet));
  return false;
}

void read_letters(LayerReading& reading, const MegatronPattern& pattern) {
  for (std::size_t i = 0; i < reading.layers.size(); ++i) {
    reading.layers[i] = layer_of(pattern.letters[i]);
  }
  reading.causes.push_back(pattern.key);
  const std::string spec = reading.arguments.written("spec");
  const bool is_usual = spec.find("hybrid_layer_specs") != std::string::npos ||
                        spec.find("mamba_layer_specs") != std::string::npos;
  if (is_usual) (void)reading.arguments.text("spec");
  (void)reading.arguments.truth("is_hybrid_model");
  (void)reading.arguments.text(megatron::kExpertFrequency);  // The letters say it.
  const auto variant = reading.arguments.text(megatron::kVariant);
  if (variant && pattern.has('G')) (void)is_known_variant(reading, *variant);
  if (pattern.has('D')) {
    reading.limits.push_back(pattern.key + ": layers of sparse attention (D)");
  }
  if (pattern.has('*') && pattern.has('+')) {
    reading.limits.push_back(pattern.key + ": attention (*) and latent attention (+) in one model");
  }
  const std::string last(1, pattern.letters.back());
  if (pattern.num_depths > 0 && pattern.depth != last) {
    reading.limits.push_back(fmt::format(
        "{}: multi-token prediction by {} (here a depth has one block, as the last layer is: {})",
        pattern.key, pattern.depth, last));
  }
}

void read_variant(LayerReading& reading) {
  const auto variant = reading.arguments.text(megatron::kVariant);
  if (!variant) return;
  if (!is_known_variant(reading, *variant)) return;
  if (!reading.arguments.text(megatron::kLinearFrequency)) {
    reading.limits.push_back(
        fmt::format("{} {} without {}", megatron::kVariant, *variant, megatron::kLinearFrequency));
    return;
  }
  const auto list = reading.frequency(megatron::kLinearFrequency, LayerPhase::all_but_last_of_each);
  if (!list) return;
  reading.causes.emplace_back(megatron::kVariant);
  reading.causes.emplace_back(megatron::kLinearFrequency);
  for (std::size_t i = 0; i < reading.layers.size(); ++i) {
    if ((*list)[i]) reading.layers[i].mixer = Mixer::delta_net;
  }
}

// Layers without experts that stand first are first_dense_layers; other patterns are model.layers.
void read_experts(LayerReading& reading, Import& import) {
  const char* const name = megatron::kExpertFrequency;
  const auto list = reading.frequency(name, LayerPhase::first_of_each);
  if (!list) return;
  const auto first = std::find(list->begin(), list->end(), true);
  if (std::find(first, list->end(), false) == list->end()) {
    if (first == list->begin()) return;
    const auto dense = static_cast<std::int64_t>(first - list->begin());
    return import.derive(reading.arguments.at(name), "model.first_dense_layers", dense);
  }
  reading.causes.emplace_back(name);
  for (std::size_t i = 0; i < list->size(); ++i) {
    reading.layers[i].feed_forward = (*list)[i] ? FeedForward::experts : FeedForward::dense;
  }
}

ImportItem item_of(const MegatronLayer& layer) {
  ImportItem item;
  if (layer.mixer != Mixer::attention) {
    item.emplace_back("mixer", std::string(to_string(layer.mixer)));
  } else {
    if (layer.window > 0) {
      item.emplace_back("attention", std::string("sliding"));
      item.emplace_back("window_size", layer.window);
    }
    if (!layer.rotary) item.emplace_back("rotary", false);
    if (layer.sinks) item.emplace_back("sinks", true);
  }
  if (layer.feed_forward != FeedForward::automatic) {
    item.emplace_back("feed_forward", std::string(to_string(layer.feed_forward)));
  }
  return item;
}

template <class Options>
std::int64_t take_size(MegatronArguments& arguments, const megatron::MixerSize<Options>& size,
                       std::int64_t otherwise, Import& import) {
  const auto given = take_integer(arguments, size.names, kForeignDegree, import);
  if (given) return *given;
  import.derive({size.names.theirs, "(not there)"}, size.names.ours, otherwise,
                "Megatron-LM's default");
  return otherwise;
}

// Heads of Mamba-2 share twice the stream's width, where they are not counted.
void import_mixers(LayerReading& reading, Import& import) {
  const auto mixes_by = [&](Mixer mixer) {
    return std::any_of(reading.layers.begin(), reading.layers.end(),
                       [mixer](const MegatronLayer& layer) { return layer.mixer == mixer; });
  };
  if (mixes_by(Mixer::delta_net)) {
    for (const auto& size : megatron::kDeltaNetSizes) {
      (void)take_size(reading.arguments, size, size.otherwise, import);
    }
  }
  if (!mixes_by(Mixer::mamba)) return;
  const std::int64_t inner = 2 * import.integer(megatron::kHidden.ours);
  std::int64_t head = 0;
  for (const auto& size : megatron::kMambaSizes) {
    const bool is_left = size.otherwise == 0;
    if (is_left && head > 0 && inner % head != 0 &&
        !reading.arguments.integer(size.names.theirs, kForeignDegree)) {
      reading.limits.push_back(
          fmt::format("mamba_head_dim {}, which does not divide 2 x hidden_size", head));
      continue;
    }
    const std::int64_t otherwise =
        is_left ? std::max<std::int64_t>(inner / head, 1) : size.otherwise;
    const std::int64_t value = take_size(reading.arguments, size, otherwise, import);
    if (size.member == &MambaOptions::head_size) head = value;
  }
}

}  // namespace

void import_megatron_layers(MegatronArguments& arguments, const MegatronBlocks& blocks,
                            const MegatronPattern& pattern, Import& import,
                            std::vector<std::string>& limits) {
  LayerReading reading{arguments, limits, {}, {}};
  reading.layers.resize(static_cast<std::size_t>(import.integer(megatron::kLayers.ours)));
  const bool is_latent = import.has(megatron::kKeyLatent.ours);
  if (pattern.is_there()) {
    read_letters(reading, pattern);
  } else {
    read_variant(reading);
    if (import.has(megatron::kExperts.ours)) read_experts(reading, import);
  }
  read_windows(reading);
  read_positions(reading, blocks, is_latent);
  read_sinks(reading, is_latent);
  import_mixers(reading, import);
  if (reading.causes.empty()) return;
  const std::string causes = fmt::format("{}", fmt::join(reading.causes, ", "));
  if (!blocks.is_llama()) {
    limits.push_back(causes + ": layers of a gpt2 are of one kind");
    return;
  }
  std::vector<ImportItem> items;
  for (const MegatronLayer& layer : reading.layers) items.push_back(item_of(layer));
  const std::string written = arguments.written(reading.causes.front());
  write_layers({causes, written}, items, import);
}

}  // namespace shardsim
