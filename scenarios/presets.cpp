#include "scenarios/presets.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"
#include "scenarios/sweep_block.hpp"

namespace shardsim {

namespace {

std::vector<std::string> names_of_presets(const std::vector<PresetInfo>& presets) {
  std::vector<std::string> names;
  for (const PresetInfo& preset : presets) names.push_back(preset.name);
  return names;
}

// A value is missing in the preset, as nobody has written the scenario around it.
void place_in_preset(Problem& problem, const std::string& around, const PresetInfo& preset) {
  if (problem.file != around || !problem.pointer.starts_with("/system")) return;
  problem.file = preset.path;
  problem.line = 0;
  problem.excerpt = {};
  problem.fix = {};
}

// A scenario around the preset, so that the usual code resolves and checks it.
Scenario scenario_of_preset(const std::string& name, const std::vector<std::string>& overrides,
                            const std::string& beside) {
  const std::vector<PresetInfo> presets = list_presets("systems", preset_directories(beside));
  const auto found = std::ranges::find(presets, name, &PresetInfo::name);
  if (found == presets.end()) {
    throw no_such_machine("there is no system \"" + name + "\"",
                          help_for_preset(name, names_of_presets(presets), "systems") +
                              "; or name a scenario's file");
  }
  // Nodes of most sizes divide the batch, also those of 72 GPUs.
  const std::string text = R"({"schema_version": 1, "name": "collective",
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "ffn_hidden_size": 8,
              "vocab_size": 8},
    "system": {"nodes": 1, "preset": )" +
                           name_in_json(name) + R"(},
    "training": {"global_batch_size": 92160, "micro_batch_size": 1}})";
  const std::string file = (std::filesystem::path(beside) / "collective").string();
  try {
    return load_scenario_text(text, file, overrides);
  } catch (const ScenarioError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) place_in_preset(problem, file, *found);
    throw ScenarioError(std::move(problems), error.num_dropped());
  }
}

// "model": "gpt2" becomes "model": {"preset": "gpt2"}.
void expand_shorthand(JsonValue& document) {
  if (!document.is_object()) return;
  for (const Section& section : section_table()) {
    JsonValue* value = section.preset_folder.empty() ? nullptr : document.find(section.path);
    if (value != nullptr && value->is_string()) {
      const Span span = value->span;
      JsonObject object;
      object.push_back({"preset", span, std::move(*value)});
      *value = JsonValue{std::move(object), span};
    }
  }
}

// Numbers without an origin of their own take that of the nearest section around them.
void stamp_sources(JsonValue& section, const std::string& path, std::string source) {
  if (!section.is_object()) return;
  if (const JsonValue* own = section.find("source"); own != nullptr && own->is_string()) {
    source = own->string();
  }
  for (JsonMember& member : section.object()) {
    const std::string child = path + "." + member.key;
    const Field* field = find_field(child);
    if (field != nullptr && field->is_sourced && member.value.number() && !source.empty()) {
      const Span span = member.value.span;
      JsonObject wrapped;
      wrapped.push_back({"value", span, std::move(member.value)});
      wrapped.push_back({"source", span, JsonValue{source, span}});
      member.value = JsonValue{std::move(wrapped), span};
    } else if (field == nullptr && find_section(child) != nullptr) {
      stamp_sources(member.value, child, source);
    }
  }
}

// Values of `upper` win; sections are merged, anything else is replaced whole. Returns whether
// `lower` gives a value that is kept, beside where numbers are from.
bool put_below(JsonValue& upper, JsonValue&& lower, const std::string& path) {
  bool gives_any = false;
  for (JsonMember& member : lower.object()) {
    JsonValue* above = upper.find(member.key);
    const std::string child = path + "." + member.key;
    if (above == nullptr) {
      const Field* field = find_field(child);
      gives_any = gives_any || field == nullptr || field->get != nullptr;
      upper.object().push_back(std::move(member));
    } else if (above->is_object() && member.value.is_object() && find_section(child) != nullptr) {
      gives_any = put_below(*above, std::move(member.value), child) || gives_any;
    }
  }
  return gives_any;
}

class Overrides {
 public:
  Overrides(JsonValue& document, SourceTexts& texts, ProblemList& problems)
      : document_(&document), texts_(&texts), problems_(&problems) {}

  void apply(const std::string& flag) {
    const SourceText& text =
        texts_->emplace_back(SourceText{"--set " + printable(flag), flag, true});
    const Span whole{&text, 0, flag.size()};
    const std::size_t equals = flag.find('=');
    const std::string path = flag.substr(0, equals);
    if (equals == std::string::npos || path.empty() || path.front() == '.' || path.back() == '.' ||
        path.find("..") != std::string::npos) {
      problems_->add("E0109", whole, "", "--set needs a path, '=' and a value",
                     "for example --set training.global_batch_size=64");
      return;
    }
    // Every dot is one level of nesting.
    if (std::count(path.begin(), path.end(), '.') >= JsonLimits{}.max_depth) {
      problems_->add("E0003", whole, "",
                     "a path of more than " + std::to_string(JsonLimits{}.max_depth) + " keys");
      return;
    }
    std::optional<JsonValue> value = parse(flag.substr(equals + 1), whole);
    if (!value.has_value()) return;
    if (std::holds_alternative<std::nullptr_t>(value->data)) return unset(path, whole);
    put(path, whole, std::move(*value));
  }

 private:
  // JSON if it is JSON, else the bare text: --set training.precision=fp32 needs no quotes.
  std::optional<JsonValue> parse(const std::string& written, const Span& whole) {
    const SourceText& text = texts_->emplace_back(SourceText{whole.source->name, written, true});
    ProblemList problems;
    std::optional<JsonValue> value = parse_json(text, problems);
    if (value.has_value() && problems.empty()) return value;
    const bool meant_as_json =
        !written.empty() && std::string_view("{[\"").find(written[0]) != std::string_view::npos;
    if (meant_as_json || written.size() > JsonLimits{}.max_string_bytes) {
      const Problem& first = problems.problems().front();
      problems_->add(first.code, whole, "", first.message, first.help);
      return std::nullopt;
    }
    return JsonValue{written, Span{&text, 0, written.size()}};
  }

  // As if the document did not have it.
  void unset(const std::string& path, const Span& whole) {
    const bool is_known =
        path == "sweep" || find_field(path) != nullptr || find_section(path) != nullptr;
    if (!is_known) {
      const std::size_t dot = path.rfind('.');
      const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
      const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
      const KeyHint hint = hint_for_key(section, key);
      problems_->add("E0107", whole, "",
                     "there is no field \"" + printable(path, 60) + "\" to unset", hint.help,
                     hint.label);
      return;
    }
    remove_path(*document_, path);
  }

  void put(const std::string& path, const Span& whole, JsonValue value) {
    JsonValue* target = document_;
    std::string pointer;
    std::string_view rest = path;
    for (;;) {
      const std::size_t dot = rest.find('.');
      const std::string key(rest.substr(0, dot));
      pointer = pointer_to(pointer, key);
      JsonValue* child = target->find(key);
      if (child == nullptr) {
        target->object().push_back({key, whole, JsonValue{JsonObject{}, whole}});
        child = &target->object().back().value;
      }
      if (dot == std::string_view::npos) {
        *child = std::move(value);
        return;
      }
      if (!child->is_object()) {
        problems_->add(
            "E0109", whole, pointer,
            "cannot set a key inside \"" + printable(key, 40) + "\", which is " + describe(*child));
        return;
      }
      target = child;
      rest = rest.substr(dot + 1);
    }
  }

  JsonValue* document_;
  SourceTexts* texts_;
  ProblemList* problems_;
};

// `shardsim presets` lists them only in the scenario's folder.
std::string own_presets(const std::vector<PresetInfo>& presets, const std::string& folder) {
  const std::vector<std::string> builtin = builtin_preset_names(folder);
  std::vector<std::string> own;
  for (const PresetInfo& preset : presets) {
    const bool is_listed = std::ranges::find(builtin, preset.name) != builtin.end();
    if (preset.is_own && !is_listed) own.push_back(preset.name);
  }
  return own.empty() ? "" : "; beside the scenario: " + one_of_list(own);
}

void report_unknown_preset(const JsonValue& name, const Section& section,
                           const std::vector<PresetInfo>& presets,
                           const std::vector<std::string>& directories, ProblemList& problems) {
  const std::vector<std::string> names = names_of_presets(presets);
  const std::optional<std::string> machine =
      section.path == "system" ? system_of_gpu(name.string(), names) : std::nullopt;
  if (machine) {
    const std::string written = "\"" + *machine + "\"";
    problems.add(
        "E0105", name.span, "/system/preset",
        "no system is called \"" + printable(name.string(), 40) + "\"", "write " + written,
        "a GPU; the machine of it is " + written,
        {"write " + written + " for the GPU", {{name.span.offset, name.span.length, written}}});
    return;
  }
  problems.add("E0105", name.span, "/" + section.path + "/preset",
               "no " + section.path + " is called \"" + printable(name.string(), 40) + "\"",
               names.empty() ? no_presets_help(directories)
                             : help_for_preset(name.string(), names, section.preset_folder) +
                                   own_presets(presets, section.preset_folder),
               near_label(name.string(), names), fix_of_choice(name, names));
}

enum class PresetUse : std::uint8_t { none, broken, idle, some };

// Reads the preset that `section` of the document names and merges it.
PresetUse merge_preset(JsonValue& value, const Section& section,
                       const std::vector<std::string>& directories, SourceTexts& texts,
                       ProblemList& problems) {
  const JsonValue* name = value.find("preset");
  if (name == nullptr || !name->is_string() || name->string().empty()) {
    return name == nullptr || name->is_string() ? PresetUse::none : PresetUse::broken;
  }
  // Looked up in the list, so a name can never become a path out of the folders.
  const std::vector<PresetInfo> presets = list_presets(section.preset_folder, directories);
  const auto found = std::find_if(presets.begin(), presets.end(), [name](const PresetInfo& preset) {
    return preset.name == name->string();
  });
  if (found == presets.end()) {
    report_unknown_preset(*name, section, presets, directories, problems);
    return PresetUse::broken;
  }
  std::optional<std::string> text =
      read_regular_file(found->path, JsonLimits{}.max_bytes, problems);
  if (!text.has_value()) return PresetUse::broken;
  const SourceText& source =
      texts.emplace_back(SourceText{found->path, std::move(*text), false, true});
  std::optional<JsonValue> preset = parse_json(source, problems);
  if (!preset.has_value()) return PresetUse::broken;
  if (!preset->is_object() || preset->find("preset") != nullptr) {
    problems.add("E0108", preset->span, "/" + section.path,
                 "a preset is one object with the keys of \"" + section.path +
                     "\" and without a preset of its own");
    return PresetUse::broken;
  }
  stamp_sources(*preset, section.path, "");
  const bool gives_any = put_below(value, std::move(*preset), section.path);
  return gives_any ? PresetUse::some : PresetUse::idle;
}

}  // namespace

UsageError no_such_machine(const std::string& message, const std::string& fix) {
  return UsageError("E1087", message, fix);
}

std::string name_in_json(const std::string& name) { return json_text(JsonValue{name, Span{}}); }

bool names_a_file(const std::string& system) {
  return system.find('/') != std::string::npos || system.find(".json") != std::string::npos;
}

Scenario scenario_of_system(const std::string& system, const std::vector<std::string>& overrides,
                            const std::string& beside) {
  const auto loaded = [&](const std::vector<std::string>& all) {
    return names_a_file(system) ? load_scenario(system, all)
                                : scenario_of_preset(system, all, beside);
  };
  Scenario scenario = loaded(overrides);
  if (!scenario.system.software_is_default) return scenario;
  std::vector<std::string> all = overrides;  // A machine alone has no framework.
  all.emplace_back("system.software=none");
  return loaded(all);
}

void remove_path(JsonValue& document, const std::string& path) {
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

void apply_overrides(JsonValue& document, const std::vector<std::string>& overrides,
                     SourceTexts& texts, ProblemList& problems) {
  for (const std::string& flag : overrides) {
    expand_shorthand(document);
    Overrides(document, texts, problems).apply(flag);
  }
}

MergedPresets merge_presets(JsonValue& document, const std::vector<std::string>& directories,
                            SourceTexts& texts, ProblemList& problems) {
  MergedPresets merged;
  expand_shorthand(document);
  for (const Section& section : section_table()) {
    JsonValue* value = section.preset_folder.empty() ? nullptr : document.find(section.path);
    if (value == nullptr || !value->is_object()) continue;
    stamp_sources(*value, section.path, "");
    const PresetUse use = merge_preset(*value, section, directories, texts, problems);
    if (use == PresetUse::broken) merged.broken.push_back(section.path);
    if (use == PresetUse::idle) merged.idle.push_back(section.path);
  }
  return merged;
}

}  // namespace shardsim
