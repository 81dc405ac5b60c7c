#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_table.hpp"

#include "sim/diff/read_side.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kPicosecondsPerSecond = 1e12;

constexpr std::array<std::pair<const char*, const char*>, 4> kTimeParts = {
    {{kComputePart, metric::kTimeComputeS.name},
     {kExposedPart, metric::kTimeExposedCommS.name},
     {kBubblePart, metric::kTimeBubbleS.name},
     {kHostPart, metric::kTimeHostS.name}}};

// A value as one reads it: texts without quotes.
std::string text_of_value(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void flatten(const Json& value, const std::string& path,
             std::map<std::string, std::string>& fields) {
  if (!value.is_object()) {
    fields[path] = text_of_value(value);
    return;
  }
  for (const auto& [key, child] : value.items()) {
    flatten(child, path.empty() ? key : fmt::format("{}.{}", path, key), fields);
  }
}

std::optional<std::int64_t> whole(const RunSide& side, const MetricRow& row) {
  const auto found = side.metrics.find(row.name);
  if (found == side.metrics.end()) return std::nullopt;
  return std::llround(found->second);
}

void take_metrics(RunSide& side, const Json& metrics) {
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number()) side.metrics[name] = value.get<double>();
    if (value.is_boolean()) side.metrics[name] = value.get<bool>() ? 1.0 : 0.0;
  }
}

void take_parts(RunSide& side) {
  for (const auto& [name, metric] : kTimeParts) {
    const auto found = side.metrics.find(metric);
    if (found != side.metrics.end()) side.time.push_back({name, picoseconds_of(found->second)});
  }
  side.peak_bytes = whole(side, metric::kMemoryPeakBytesMax);
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    const auto bytes = whole(side, *kMemoryMetrics.at(i));
    if (bytes) {
      side.memory.push_back({std::string(name_of(static_cast<MemoryCategory>(i))), *bytes});
    }
  }
  for (const auto& [axis, row] : kAxisMetrics) {
    const auto bytes = whole(side, row);
    if (bytes) side.traffic.push_back({axis, *bytes});
  }
}

void take_step(RunSide& side) {
  const auto step = side.metrics.find(metric::kStepTimeS.name);
  if (step != side.metrics.end() && std::isfinite(step->second)) {
    side.step_ps = picoseconds_of(step->second);
    return;
  }
  throw UsageError("E1342",
                   fmt::format("{} has no step time: its run did not come to its end", side.file),
                   "run it alone to see why: shardsim FILE");
}

}  // namespace

std::int64_t picoseconds_of(double seconds) {
  return std::llround(seconds * kPicosecondsPerSecond);
}

double seconds_of(std::int64_t picoseconds) {
  return static_cast<double>(picoseconds) / kPicosecondsPerSecond;
}

RunSide side_of_result(const std::string& json, const std::string& file, bool measured) {
  RunSide side{.file = file};
  try {
    const Json result = Json::parse(json);
    const Json& scenario = result.at("scenario");
    side.what = text_of_value(scenario.value("name", Json("")));
    flatten(scenario, "", side.fields);
    if (measured && result.contains("measured") &&
        result.at("measured").contains(metric::kStepTimeS.name)) {
      side.kind = SideKind::measured_result;
      take_metrics(side, result.at("measured"));
      take_step(side);
      return side;
    }
    take_metrics(side, result.at("metrics"));
    for (const Json& row : result.value("assumptions", Json::array())) {
      side.assumptions.push_back(row.at("text").get<std::string>() + " (" +
                                 row.at("source").get<std::string>() + ")");
    }
    for (const Json& band : result.value("error_bands", Json::array())) {
      if (band.at("metric") != metric::kStepTimeS.name) continue;
      side.band = StepBand{band.at("low"), band.at("high")};
    }
  } catch (const Json::exception& error) {
    throw UsageError("E1341", fmt::format("{} is no result of shardsim: {}", file, error.what()),
                     "`shardsim FILE --json` prints one");
  }
  take_step(side);
  take_parts(side);
  return side;
}

}  // namespace shardsim
