#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/step_range.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {
namespace {

// A headline number. With an error band: its centre, what was simulated beside it, and the range.
struct Tile {
  std::string name;
  std::string value;
  std::string model;  // "by the model 19.0 s"; empty without a band.
  std::string note;
};

std::string tile_markup(const Tile& tile) {
  const std::string model =
      tile.model.empty() ? std::string()
                         : fmt::format(" <span class=\"model\">{}</span>", markup_text(tile.model));
  return fmt::format(
      "<div><dt>{}</dt><dd class=\"value\">{}{}</dd><dd class=\"note\">{}</dd></div>\n",
      markup_text(tile.name), unbroken(tile.value), model, markup_text(tile.note));
}

std::string percent_of(double share) { return fmt::format("{:.1f} %", 100 * share); }

// The centre of the metric's band with its range; without a band what was simulated, with `note`.
std::optional<Tile> banded_tile(const Input& input, const MetricRow& metric, const char* name,
                                const std::string& note) {
  const auto simulated = input.result.number(metric);
  if (!simulated) return std::nullopt;
  const std::string model = format_metric(metric.name, *simulated);
  const MetricBand* const band = input.result.band_of(metric);
  if (band == nullptr) return Tile{name, model, "", note};
  std::string range = band_held(*band) + ": " + band_range(*band);
  if (*simulated < band->low || *simulated > band->high) {
    range += fmt::format("; the model lies outside: the bias of this group is {:+.0f} %",
                         100 * band->bias);
  }
  return Tile{name, band_centre(*band), "by the model " + model, range};
}

// A number in proportion to the step, or to its inverse, has the band of the step.
struct Scaled {
  const char* name;
  double simulated = 0;
  bool is_rate = false;  // In proportion to the inverse.
  std::string (*words)(double value) = format_number;
  std::string note;
};

Tile scaled_tile(const Input& input, const Scaled& scaled) {
  const std::string model = scaled.words(scaled.simulated);
  const bool has_band = input.result.band_of(metric::kStepTimeS) != nullptr;
  if (!has_band || !(scaled.simulated > 0)) return {scaled.name, model, "", scaled.note};
  const BandRange range = scaled.is_rate ? range_against_step(input.result, scaled.simulated)
                                         : range_with_step(input.result, scaled.simulated);
  std::string words = scaled.words(range.low) + " to " + scaled.words(range.high);
  if (!scaled.note.empty()) words += "; " + scaled.note;
  return {scaled.name, "about " + scaled.words(range.centre), "by the model " + model, words};
}

void add_rates(const Input& input, std::vector<Tile>& tiles) {
  const Result& result = input.result;
  if (const auto each = result.number(metric::kTokensPerSPerGpu)) {
    tiles.push_back(scaled_tile(
        input, {"Tokens/s/GPU", *each, true, format_number,
                fmt::format("on each of {} GPUs", format_count(input.headline.ranks))}));
  }
  if (const auto mfu = result.number(metric::kMfu)) {
    const auto flops = result.number(metric::kModelTflopsPerGpu);
    tiles.push_back(scaled_tile(
        input, {"Model FLOPs utilization (MFU)", *mfu, true, percent_of,
                flops ? fmt::format("by the model {} TFLOP/s/GPU", format_number(*flops)) : ""}));
  }
}

std::optional<Tile> memory_tile(const Input& input) {
  if (auto tile = banded_tile(input, metric::kMemoryDeviceBytesMax, "Memory on the fullest GPU",
                              "as nvidia-smi would show")) {
    const double device = input.headline.device_memory_bytes;
    if (device > 0) tile->note += "; a GPU has " + format_memory(device);
    return tile;
  }
  const auto peak = input.result.number(metric::kMemoryPeakBytesMax);
  if (!peak) return std::nullopt;
  const double device = input.headline.device_memory_bytes;
  return Tile{"Memory of tensors", format_memory(*peak), "",
              device > 0 ? fmt::format("{} of {}, fullest rank", format_share(*peak / device),
                                       format_memory(device))
                         : std::string("fullest rank")};
}

std::optional<Tile> goodput_tile(const Input& input) {
  const auto goodput = input.result.number(metric::kGoodputFraction);
  if (!goodput) return std::nullopt;
  const auto low = input.result.number(metric::kGoodputFractionLow);
  const auto high = input.result.number(metric::kGoodputFractionHigh);
  return Tile{"Goodput", percent_of(*goodput), "",
              low && high ? percent_of(*low) + " to " + percent_of(*high) : "work that is kept"};
}

std::optional<Tile> draws_tile(const Input& input) {
  const auto count = input.result.number(metric::kDrawsCount);
  const auto low = input.result.number(metric::kDrawsStepTimeSP5);
  const auto high = input.result.number(metric::kDrawsStepTimeSP95);
  if (!count || !low || !high) return std::nullopt;
  return Tile{"Step time, drawn faults", format_seconds(*low) + " to " + format_seconds(*high), "",
              "90 % of " + format_count(static_cast<std::int64_t>(*count)) + " draws"};
}

void add_cost_tiles(const Input& input, std::vector<Tile>& tiles) {
  const CostEstimate& cost = input.detail.cost;
  if (!(cost.tokens_total > 0) || !(cost.days > 0)) return;
  tiles.push_back(scaled_tile(input, {"Time to train", cost.days, false, format_days,
                                      "for " + format_tokens(cost.tokens_total) + " tokens"}));
  if (!(cost.usd > 0)) return;
  tiles.push_back(
      scaled_tile(input, {"Cost", cost.usd, false, format_usd,
                          fmt::format("at ${:.2f} a GPU and hour", cost.usd_per_gpu_hour)}));
}

// As many beside each other as fill their rows.
std::size_t columns_for(std::size_t tiles) {
  if (tiles <= 4) return tiles;
  return tiles % 4 == 0 || tiles % 3 == 1 ? 4 : 3;
}

}  // namespace

std::string tiles(const Input& input) {
  std::vector<Tile> tiles;
  const auto add = [&tiles](const std::optional<Tile>& tile) {
    if (tile) tiles.push_back(*tile);
  };
  const bool is_plan = input.result.find(metric::kOraclePassed) == nullptr;
  add(banded_tile(input, metric::kStepTimeS, "Step time", is_plan ? "no error band" : ""));
  add_rates(input, tiles);
  add(memory_tile(input));
  add(draws_tile(input));
  add(goodput_tile(input));
  add_cost_tiles(input, tiles);
  if (tiles.empty()) return {};
  std::string markup;
  for (const Tile& tile : tiles) markup += tile_markup(tile);
  return fmt::format("<dl class=\"tiles\" style=\"--columns:{}\">\n{}</dl>\n",
                     columns_for(tiles.size()), markup);
}

}  // namespace shardsim::html
