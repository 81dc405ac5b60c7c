#include "scenarios/load.hpp"

#include <filesystem>
#include <optional>
#include <utility>

#include "scenarios/json_value.hpp"
#include "scenarios/layers.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/sweep_block.hpp"
#include "scenarios/warnings.hpp"
#include "scenarios/write_resolved.hpp"

namespace shardsim {
namespace {

void throw_if_any(const ProblemList& problems) {
  if (!problems.empty()) {
    throw ScenarioError(problems.problems(), problems.num_dropped());
  }
}

// That nothing is corrected, or goes wrong, is no number that a result rests on.
bool corrects_nothing(const std::string& path, const FieldState& state) {
  const bool is_neutral = path.rfind("system.nccl.", 0) == 0 || path.rfind("faults.", 0) == 0;
  return is_neutral && !state.given;
}

// A plain run is of no sweep, but says what is wrong with it.
void leave_sweep_out(JsonValue& document, ProblemList& problems) {
  if (document.find("sweep") == nullptr) return;
  [[maybe_unused]] const SweepBlock checked = read_sweep(take_sweep(document), problems);
}

// Where the numbers of model and system come from, in the order of the table.
std::vector<NumberSource> collect_sources(const Reading& reading) {
  std::vector<NumberSource> sources;
  for (const Field& field : field_table()) {
    const auto state = reading.fields.find(field.path);
    if (field.is_sourced && is_meaningful(field, reading.scenario) &&
        state != reading.fields.end() && !state->second.source.empty() &&
        !corrects_nothing(field.path, state->second)) {
      sources.push_back({field.path, state->second.source});
    }
  }
  return sources;
}

}  // namespace

Scenario load_scenario_text(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides, const LoadLimits& limits) {
  Reading reading;
  reading.limits = limits;
  reading.folder = std::filesystem::path(file_name).parent_path().string();
  SourceTexts texts;
  const SourceText& source = texts.emplace_back(SourceText{file_name, text, false});
  std::optional<JsonValue> document = parse_json(source, reading.problems);
  if (!document.has_value()) {
    throw_if_any(reading.problems);
  }
  if (document->is_object()) {
    apply_overrides(*document, overrides, texts, reading.problems);
    leave_sweep_out(*document, reading.problems);
    const std::string& beside = reading.folder;
    std::vector<std::string> directories = builtin_preset_directories();
    directories.insert(directories.begin(), beside.empty() ? "." : beside);
    for (const std::string& section :
         merge_presets(*document, directories, texts, reading.problems)) {
      reading.broken.insert(section);
    }
  }
  for (const SourceText& text_read : texts) {
    if (text_read.preset) reading.scenario.files.push_back({"a preset", text_read.name});
  }
  read_document(*document, reading);
  resolve(reading);
  throw_if_any(reading.problems);
  warn(reading);
  reading.scenario.sources = collect_sources(reading);
  reading.scenario.resolved_json = write_resolved(reading.scenario);
  return std::move(reading.scenario);
}

Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides,
                       const LoadLimits& limits) {
  ProblemList problems;
  const std::optional<std::string> text = read_regular_file(path, JsonLimits{}.max_bytes, problems);
  throw_if_any(problems);
  return load_scenario_text(*text, path, overrides, limits);
}

}  // namespace shardsim
