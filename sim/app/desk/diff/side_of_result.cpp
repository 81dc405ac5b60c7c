#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "sim/app/desk/diff/read_side.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kPicosecondsPerSecond = 1e12;

constexpr std::array<std::pair<const char*, const char*>, 4> kTimeParts = {
    {{kComputePart, "time.compute_s"},
     {kExposedPart, "time.exposed_comm_s"},
     {kBubblePart, "time.bubble_s"},
     {kHostPart, "time.host_s"}}};
constexpr std::array<const char*, 5> kMemoryParts = {"params", "grads", "optimizer", "activations",
                                                     "comm"};
constexpr std::array<const char*, 5> kAxes = {"dp", "tp", "cp", "ep", "pp"};

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

std::optional<std::int64_t> whole(const RunSide& side, const std::string& metric) {
  const auto found = side.metrics.find(metric);
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
  side.peak_bytes = whole(side, "memory.peak_bytes.max");
  for (const char* const name : kMemoryParts) {
    const auto bytes = whole(side, fmt::format("memory.{}_bytes.max", name));
    if (bytes) side.memory.push_back({name, *bytes});
  }
  for (const char* const axis : kAxes) {
    const auto bytes = whole(side, fmt::format("comm.bytes_sent.by_axis.{}", axis));
    if (bytes) side.traffic.push_back({axis, *bytes});
  }
}

void take_step(RunSide& side) {
  const auto step = side.metrics.find("step_time_s");
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
    if (measured && result.contains("measured") && result.at("measured").contains("step_time_s")) {
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
      if (band.at("metric") != "step_time_s") continue;
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
