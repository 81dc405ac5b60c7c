#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_table.hpp"

#include "reports/json_writer.hpp"
#include "scenarios/load.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"

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
  const auto value = side.metric(row.name);
  return value ? std::optional<std::int64_t>(std::llround(*value)) : std::nullopt;
}

void take_metrics(RunSide& side, const Json& metrics) {
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number()) side.metrics[name] = value.get<double>();
    if (value.is_boolean()) side.metrics[name] = value.get<bool>() ? 1.0 : 0.0;
  }
}

void take_parts(RunSide& side) {
  for (const auto& [name, metric] : kTimeParts) {
    if (const auto seconds = side.metric(metric)) {
      side.time.push_back({name, picoseconds_of(*seconds)});
    }
  }
  side.peak_bytes = whole(side, metric::kMemoryPeakBytesMax);
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    if (const auto bytes = whole(side, *kMemoryMetrics.at(i))) {
      side.memory.push_back({std::string(name_of(static_cast<MemoryCategory>(i))), *bytes});
    }
  }
  for (const auto& [axis, row] : kAxisMetrics) {
    if (const auto bytes = whole(side, row)) side.traffic.push_back({axis, *bytes});
  }
}

// Results of earlier versions name no group and have no bias.
MetricBand band_of(const Json& band) {
  return {.metric = band.at("metric"),
          .low = band.at("low"),
          .centre = band.value("centre", band.at("low").get<double>()),
          .high = band.at("high"),
          .bias = band.value("bias", 0.0),
          .runs = band.value("runs", std::int64_t{0}),
          .group = band.value("group", ""),
          .too_few = band.value("too_few", ""),
          .held_out_share = band.value("held_out_share", 0.0)};
}

void take_step(RunSide& side) {
  const auto step = side.metric(metric::kStepTimeS.name);
  if (step && std::isfinite(*step)) {
    side.step_ps = picoseconds_of(*step);
    return;
  }
  throw UsageError("E1342", fmt::format("{} has no step time: its run did not finish", side.file),
                   "run it alone to see why: shardsim FILE");
}

constexpr unsigned char kGzip = 0x1f;  // The first byte of a gzip file (RFC 1952).

[[noreturn]] void refuse(const std::string& path, const std::string& help) {
  throw UsageError(
      "E1341",
      fmt::format("{} is not a result, a scenario, a Megatron-LM log or a profiler trace", path),
      help);
}

std::ifstream opened(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // A folder opens, but has nothing to read.
  if (file) file.peek();
  if (file && !file.eof()) return file;
  throw UsageError("E1343", fmt::format("cannot read {}, or it is empty", path),
                   "check the path and its permissions");
}

std::string first_characters(std::istream& file) {
  constexpr std::size_t kTwo = 2;
  std::string characters(kTwo, '\0');
  file >> std::ws;
  file.read(characters.data(), kTwo);
  file.clear();
  file.seekg(0);
  return characters;
}

// A scenario may begin with a comment; "/usr/lib/python3/..." is a line of a log.
bool begins_json(const std::string& characters) {
  return characters[0] == '{' || characters == "//" || characters == "/*";
}

// A run made here also reports its exposed communication by axis.
RunSide run_side(const SideRequest& request, RunHooks hooks) {
  Scenario scenario = load_scenario(request.path, request.overrides);
  scenario.output.trace.clear();
  hooks.detail = true;
  const RunOutcome outcome = run_scenario(std::move(scenario), hooks);
  RunSide side = side_of_result(to_json(outcome.result), request.path, false);
  if (outcome.detail) add_axes(side, outcome.detail->axes);
  return side;
}

RunSide read_json_side(const SideRequest& request, std::ifstream& file, const RunHooks& hooks) {
  const std::string& path = request.path;
  JsonOutline outline = outline_json(file);
  if (outline.trace) {
    if (outline.is_json && outline.trace->step_ps > 0) return *outline.trace;
    throw UsageError("E1342",
                     outline.is_json ? fmt::format("the trace {} shows no work of a GPU", path)
                                     : fmt::format("the trace {} is cut off or damaged", path),
                     "record it with ProfilerActivity.CUDA, and export it whole");
  }
  if (outline.is_json && outline.has("metrics") && outline.has("scenario")) {
    file.clear();
    file.seekg(0);
    const std::string json((std::istreambuf_iterator<char>(file)), {});
    return side_of_result(json, path, request.measured);
  }
  return run_side(request, hooks);
}

}  // namespace

std::int64_t picoseconds_of(double seconds) {
  return std::llround(seconds * kPicosecondsPerSecond);
}

double seconds_of(std::int64_t picoseconds) {
  return static_cast<double>(picoseconds) / kPicosecondsPerSecond;
}

RunSide side_of_result(const std::string& json, const std::string& file, bool measured) {
  RunSide side;
  side.file = file;
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
    for (const Json& check : result.value("checks", Json::array())) {
      if (check.at("name") == "memory") side.fits = check.at("passed").get<bool>();
    }
    for (const Json& row : result.value("assumptions", Json::array())) {
      side.assumptions.push_back(row.at("text").get<std::string>() + " (" +
                                 row.at("source").get<std::string>() + ")");
    }
    for (const Json& band : result.value("error_bands", Json::array())) {
      side.bands.push_back(band_of(band));
      if (band.at("metric") != metric::kStepTimeS.name) continue;
      side.band = StepBand{band.at("low"), band.at("high")};
    }
  } catch (const Json::exception& error) {
    throw UsageError("E1341", fmt::format("{} is not a result of shardsim: {}", file, error.what()),
                     "`shardsim FILE --json` prints one");
  }
  take_step(side);
  take_parts(side);
  return side;
}

RunSide read_side(const SideRequest& request, const RunHooks& hooks) {
  const std::string& path = request.path;
  std::ifstream file = opened(path);
  const std::string first = first_characters(file);
  if (static_cast<unsigned char>(first[0]) == kGzip) {
    refuse(path, "it is compressed: unpack it with gunzip first");
  }
  RunSide side;
  if (begins_json(first)) {
    side = read_json_side(request, file, hooks);
  } else if (std::optional<RunSide> logged = read_megatron_log(file)) {
    side = *logged;
  } else {
    refuse(path, "a log has lines with \"elapsed time per iteration (ms):\"");
  }
  side.file = path;
  return side;
}

}  // namespace shardsim
