#include "scenarios/load.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

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

// A result does not rest on the neutral value of a correction or of a fault.
bool corrects_nothing(const std::string& path, const FieldState& state) {
  const bool is_neutral = path.rfind("system.nccl.", 0) == 0 || path.rfind("faults.", 0) == 0;
  return is_neutral && !state.given;
}

// A plain run ignores the sweep, but reports the problems in it.
void leave_sweep_out(JsonValue& document, ProblemList& problems) {
  if (document.find("sweep") == nullptr) return;
  [[maybe_unused]] const SweepBlock checked = read_sweep(take_sweep(document), problems);
}

// The sources of all numbers of model and system, in the order of the table.
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

// The text that is loaded, its file's name and the flags that override it.
struct Sources {
  const std::string& text;
  const std::string& file_name;
  const std::vector<std::string>& overrides;
};

void remove(JsonValue& document, const std::string& path) {
  JsonValue* section = &document;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    section = section->is_object() ? section->find(path.substr(begin, dot - begin)) : nullptr;
    if (section == nullptr) return;
    begin = dot + 1;
  }
  if (!section->is_object()) return;
  std::erase_if(section->object(),
                [key = path.substr(begin)](const JsonMember& member) { return member.key == key; });
}

// Fills `reading`. The field `left_out` is read as if neither file nor flag had set it.
void read(const Sources& sources, const std::string& left_out, SourceTexts& texts,
          Reading& reading) {
  reading.folder = std::filesystem::path(sources.file_name).parent_path().string();
  const SourceText& source = texts.emplace_back(SourceText{sources.file_name, sources.text, false});
  std::optional<JsonValue> document = parse_json(source, reading.problems);
  if (!document.has_value()) return;
  if (document->is_object()) {
    apply_overrides(*document, sources.overrides, texts, reading.problems);
    leave_sweep_out(*document, reading.problems);
    if (!left_out.empty()) remove(*document, left_out);
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
}

// Fields that describe a device, such as its peak in each precision: a run need not use them all.
bool describes_device(const Field& field) { return field.path.rfind("system.device.", 0) == 0; }

bool has_preset(const Scenario& scenario, const std::string& path) {
  const std::string section = path.substr(0, path.find('.'));
  return (section == "model" && !scenario.model.preset.empty()) ||
         (section == "system" && !scenario.system.preset.empty());
}

FieldValue default_value(const Field& field) {
  const SourceText text{"default of " + field.path, field.default_json, true};
  ProblemList problems;
  bool automatic = false;
  return *read_value(field, *parse_json(text, problems), field.path, problems, automatic);
}

// The effect of a field that the user wrote. none: no effect. required, value: the field's own
// value, which the scenario must or need not state. derives: also other fields that are derived
// from it.
enum class Choice { none, required, value, derives };

bool is_idle(const Field& field, const Scenario& scenario) {
  return field.acts && !field.acts(scenario);
}

Choice choice_of(const Field& field, const Reading& reading, const Sources& sources) {
  const auto state = reading.fields.find(field.path);
  if (state == reading.fields.end() || !written_by_user(state->second)) return Choice::none;
  if (!state->second.written) return Choice::none;
  // A required field is no choice, unless a flag sets it.
  const Choice demanded = state->second.span.source->flag ? Choice::value : Choice::required;
  const Scenario& scenario = reading.scenario;
  const FieldValue& value = *state->second.written;
  if (!has_preset(scenario, field.path)) {
    if (field.is_required || describes_device(field)) return demanded;
    const bool may_derive = field.derives_only || is_idle(field, scenario);
    if (!field.default_json.empty() && !may_derive) {
      return value == default_value(field) ? Choice::none : Choice::value;
    }
  }
  SourceTexts texts;
  Reading without;
  without.limits = reading.limits;
  read(sources, field.path, texts, without);
  if (!without.problems.empty()) return demanded;
  if (field.get(without.scenario) == value) return Choice::none;
  Scenario as_written = scenario;
  field.set(as_written, value);
  field.set(without.scenario, value);
  return write_resolved(without.scenario) == write_resolved(as_written) ? Choice::value
                                                                        : Choice::derives;
}

// Marks all fields: a choice may lose against any of them, and the winner is then named. Without a
// choice nothing is marked, and noting costs nothing.
void mark_all(Scenario& scenario) {
  for (const Field& field : field_table()) {
    if (field.set_mark != nullptr) field.set_mark(scenario, mark_of(field));
  }
}

// Finds the chosen fields that a run may not need. A field that derives others acts through them.
void find_chosen(Reading& reading, const Sources& sources) {
  Scenario& scenario = reading.scenario;
  for (const Field& field : field_table()) {
    if (field.get == nullptr) continue;
    const bool idles = is_idle(field, scenario);
    if (field.set_mark == nullptr && !field.is_of_values && !field.derives_only && !idles) continue;
    const Choice choice = choice_of(field, reading, sources);
    if (choice == Choice::none || (choice == Choice::derives && (idles || field.derives_only))) {
      continue;
    }
    if (choice == Choice::required && field.set_mark == nullptr) continue;
    (choice == Choice::required ? scenario.required : scenario.chosen).push_back(field.path);
    if (field.set_mark != nullptr) mark_all(scenario);
  }
}

}  // namespace

Scenario load_scenario_text(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides, const LoadLimits& limits) {
  Reading reading;
  reading.limits = limits;
  SourceTexts texts;
  const Sources sources{text, file_name, overrides};
  read(sources, "", texts, reading);
  throw_if_any(reading.problems);
  find_chosen(reading, sources);
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
