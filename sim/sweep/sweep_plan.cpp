#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"
#include "sim/kernel/version.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/sweep/run_sweep.hpp"

namespace shardsim {

namespace {

// A separator that no JSON text on one line contains.
constexpr char kEnd = '\n';

// Text after the block keeps its place.
std::string without_block(std::string text, const JsonValue& block) {
  if (!block.is_object()) return text;
  for (std::size_t i = 0; i < block.span.length; ++i) {
    char& character = text[block.span.offset + i];
    if (character != '\n') character = ' ';
  }
  text[block.span.offset] = '{';
  text[block.span.offset + block.span.length - 1] = '}';
  return text;
}

std::string hash_of_sweep(const JsonValue& document, const SweepBlock& block) {
  std::string all = std::string(version()) + kEnd + json_text(document) + kEnd;
  for (const SweepDimension& dimension : block.dimensions) {
    for (const SweepAxis& axis : dimension) {
      all += axis.path + kEnd;
      for (const std::string& value : axis.values) all += value + kEnd;
    }
    all += kEnd;
  }
  return fmt::format("{:016x}", hash_text(all));
}

// Errors of the file itself would occur at every point, so they are reported once, before any runs.
// A missing field is not an error here: another point may set it with a preset.
void require_sound_file(const SweepPlan& plan) {
  try {
    static_cast<void>(load_scenario_text(plan.text, plan.file, overrides_of(plan, 0)));
  } catch (const ScenarioError& error) {
    std::vector<Problem> own;
    for (const Problem& problem : error.problems()) {
      const bool missing = problem.message.find(" is missing") != std::string::npos;
      const bool alone = problem.code.rfind("E01", 0) == 0 && !missing;
      if (alone && problem.line > 0 && problem.file == plan.file) own.push_back(problem);
    }
    if (!own.empty()) throw ScenarioError(std::move(own), 0);
  }
}

void refuse_set_axes(const SweepPlan& plan) {
  for (const std::string& flag : plan.overrides) {
    const std::string path = flag.substr(0, flag.find('='));
    if (std::find(plan.columns.begin(), plan.columns.end(), path) == plan.columns.end()) continue;
    throw UsageError("E1308", fmt::format("--set {} fixes what the sweep varies", flag),
                     fmt::format("leave it out, or write --axis {}", flag));
  }
}

}  // namespace

SweepPlan load_sweep(const SweepRequest& request) {
  ProblemList problems;
  std::optional<std::string> text =
      read_regular_file(request.file, JsonLimits{}.max_bytes, problems);
  problems.throw_if_any();
  SourceTexts texts;
  const SourceText& source = texts.emplace_back(SourceText{request.file, *text, false});
  std::optional<JsonValue> document = parse_json(source, problems);
  problems.throw_if_any();
  SweepPlan plan{.file = request.file,
                 .text = *text,
                 .overrides = request.overrides,
                 .axis_flags = request.axes};
  if (!document->is_object()) static_cast<void>(load_scenario_text(*text, request.file));
  const JsonValue* written = document->find("sweep");
  if (written != nullptr) plan.text = without_block(std::move(plan.text), *written);
  apply_overrides(*document, request.overrides, texts, problems);
  const JsonValue block = take_sweep(*document);
  if (block.span.source != nullptr) plan.block = read_sweep(block, problems);
  for (const std::string& flag : request.axes) add_axis_flag(plan.block, flag, texts, problems);
  if (problems.empty()) {
    check_dimensions(plan.block, {&source, 0, 1}, problems);
  }
  problems.throw_if_any();
  plan.num_points = plan.block.num_points();
  if (plan.num_points == 0) {
    throw UsageError("E1307", fmt::format("{} has no sweep: nothing varies", request.file),
                     "add \"sweep\": {\"axes\": {\"parallelism.tp\": [1, 2, 4]}}, or write --axis "
                     "parallelism.tp=1,2,4");
  }
  for (const SweepDimension& dimension : plan.block.dimensions) {
    for (const SweepAxis& axis : dimension) plan.columns.push_back(axis.path);
  }
  refuse_set_axes(plan);
  require_sound_file(plan);
  plan.hash = hash_of_sweep(*document, plan.block);
  return plan;
}

std::vector<std::string> values_of(const SweepPlan& plan, std::size_t number) {
  std::vector<std::string> values;
  std::size_t after = plan.num_points;  // Points that share all values up to a dimension.
  for (const SweepDimension& dimension : plan.block.dimensions) {
    const std::size_t count = dimension.front().values.size();
    after /= count;
    const std::size_t index = number / after % count;
    for (const SweepAxis& axis : dimension) values.push_back(axis.values[index]);
  }
  return values;
}

std::vector<std::string> overrides_of(const SweepPlan& plan, std::size_t number) {
  const std::vector<std::string> values = values_of(plan, number);
  std::vector<std::string> flags = plan.overrides;
  // A whole section comes first, since it would overwrite its fields.
  for (const bool sections : {true, false}) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_section = plan.columns[i].find('.') == std::string::npos;
      if (is_section == sections) flags.push_back(plan.columns[i] + "=" + values[i]);
    }
  }
  return flags;
}

}  // namespace shardsim
