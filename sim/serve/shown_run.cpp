#include "sim/serve/shown_run.hpp"

#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/metric_table.hpp"

#include "reports/json_writer.hpp"
#include "reports/step_range.hpp"
#include "reports/text_summary.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"
#include "sim/run/detail/detail_of.hpp"

#include "sim/serve/answer.hpp"

namespace shardsim {

namespace {

struct Tile {
  const char* name;
  std::string value;
  std::string model;  // "by the model 2.01 s"; empty without a band.
  std::string note;
};

std::string json_of(const Tile& tile) {
  return fmt::format("{{{}, {}, {}, {}}}", json_member("name", json_text(tile.name)),
                     json_member("value", json_text(tile.value)),
                     json_member("model", json_text(tile.model)),
                     json_member("note", json_text(tile.note)));
}

// The centre of the metric's band, with its range; without one, what was simulated.
void add_banded(const Result& result, const MetricRow& metric, Tile tile,
                std::vector<Tile>& tiles) {
  const auto simulated = result.number(metric);
  if (!simulated) return;
  if (const MetricBand* const band = result.band_of(metric)) {
    const std::string note = tile.note;
    tile.value = band_centre(*band);
    tile.model = by_the_model(*band, *simulated);
    tile.note = band_held(*band) + ": " + band_range(*band) + (note.empty() ? "" : "; " + note);
  } else {
    tile.value = format_metric(metric.name, *simulated);
  }
  tiles.push_back(std::move(tile));
}

struct Scaled {
  const char* name;
  double simulated = 0;
  std::string (*words)(double value);
};

// As the text page has them.
std::string days_words(double days) { return format_number(days) + " days"; }
std::string usd_words(double usd) { return "$" + format_amount(usd, Digits::three); }

// A quantity in proportion to the step has the range of the step.
Tile scaled_tile(const Result& result, const Scaled& scaled) {
  if (result.band_of(metric::kStepTimeS) == nullptr) {
    return {scaled.name, scaled.words(scaled.simulated), "", ""};
  }
  const BandRange range = range_with_step(result, scaled.simulated);
  return {scaled.name, "about " + scaled.words(range.centre),
          "by the model " + scaled.words(range.by_the_model),
          scaled.words(range.low) + " to " + scaled.words(range.high)};
}

std::vector<Tile> tiles_of(const TextHeadline& headline, const Result& result) {
  std::vector<Tile> tiles;
  add_banded(result, metric::kStepTimeS, {.name = "Step time"}, tiles);
  if (const auto days = result.number(metric::kCostDays)) {
    Tile tile = scaled_tile(result, {"Time to train", *days, days_words});
    tile.note += (tile.note.empty() ? "for " : "; for ") +
                 format_amount(headline.tokens_total, Digits::given) + " tokens";
    tiles.push_back(std::move(tile));
  }
  if (const auto usd = result.number(metric::kCostUsd)) {
    tiles.push_back(scaled_tile(result, {"Cost", *usd, usd_words}));
  }
  const double device = headline.device_memory_bytes;
  add_banded(result, metric::kMemoryDeviceBytesMax,
             {.name = "Memory on the fullest GPU",
              .note = device > 0 ? "a GPU has " + format_memory(device) : std::string()},
             tiles);
  return tiles;
}

// A part of a bar. `ink`: a colour of reports/web/src/report.css.
std::string part_json(const std::string& name, const std::string& ink, double amount,
                      const std::string& words) {
  return fmt::format("{{{}, {}, {}, {}}}", json_member("name", json_text(name)),
                     json_member("ink", json_text(ink)),
                     json_member("amount", fmt::format("{}", amount)),
                     json_member("words", json_text(words)));
}

std::string list_of(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string time_parts(const Result& result) {
  struct Part {
    const MetricRow& metric;
    const char* name;
  };
  constexpr std::array<Part, 4> kParts = {{{metric::kTimeComputeS, "computing"},
                                           {metric::kTimeExposedCommS, "waiting for communication"},
                                           {metric::kTimeBubbleS, "bubble and idle"},
                                           {metric::kTimeHostS, "waiting for the host"}}};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const double seconds = result.number(kParts.at(i).metric).value_or(0);
    if (!(seconds > 0)) continue;
    parts.push_back(
        part_json(kParts.at(i).name, fmt::format("time-{}", i), seconds, format_seconds(seconds)));
  }
  return list_of(parts);
}

// The device's figure ends the bar: what is not tensors are the allocator, CUDA and NCCL.
std::string memory_parts(const Result& result, const MemoryUse& fullest) {
  constexpr std::array<const char*, kNumMemoryCategories> kNames = {
      "parameters", "gradients", "optimizer", "activations", "communication"};
  std::vector<std::string> parts;
  const double used = result.number(metric::kMemoryDeviceBytesMax).value_or(0);
  const double peak = result.number(metric::kMemoryPeakBytesMax).value_or(0);
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    if (fullest.at(i) == 0) continue;
    const auto bytes = static_cast<double>(fullest.at(i));
    parts.push_back(
        part_json(kNames.at(i), fmt::format("memory-{}", i), bytes, format_memory(bytes)));
  }
  if (used > peak) {
    parts.push_back(
        part_json("allocator, CUDA, NCCL", "time-2", used - peak, format_memory(used - peak)));
  }
  return list_of(parts);
}

}  // namespace

std::string shown_run_json(const Experiment& experiment, const RunOutcome& outcome) {
  const Result& result = outcome.result;
  const TextHeadline headline = headline_of(experiment);
  std::vector<std::string> tiles;
  for (const Tile& tile : tiles_of(headline, result)) tiles.push_back(json_of(tile));
  const bool is_ok = result.exit_code == static_cast<int>(ExitCode::ok);
  return fmt::format(
      "{{{},\n{},\n{},\n{},\n{},\n{},\n{},\n{},\n{}}}\n",
      json_member("verdict", json_text(verdict_text(result))),
      json_member("is_ok", is_ok ? "true" : "false"),
      json_member("facts", json_text(fmt::format("{}", fmt::join(facts_of(headline), " · ")))),
      json_member("tiles", list_of(tiles)), json_member("time", time_parts(result)),
      json_member("memory", memory_parts(result, outcome.fullest_memory)),
      json_member("device_bytes", fmt::format("{}", headline.device_memory_bytes)),
      json_member("text", json_text(to_text(result, headline, {}))),
      json_member("result", to_json(result)));
}

}  // namespace shardsim
