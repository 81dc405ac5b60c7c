#include "scenarios/layers.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "scenarios/field.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/safe_fix.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

// "model": "gpt2" becomes "model": {"preset": "gpt2"}.
void expand_shorthand(JsonValue& document) {
  if (!document.is_object()) {
    return;
  }
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
  if (!section.is_object()) {
    return;
  }
  if (const JsonValue* own = section.find("source"); own != nullptr && own->is_string()) {
    source = own->string();
  }
  for (JsonMember& member : section.object()) {
    const std::string child = path + "." + member.key;
    const Field* field = find_field(child);
    const bool is_number = std::holds_alternative<std::int64_t>(member.value.data) ||
                           std::holds_alternative<double>(member.value.data);
    if (field != nullptr && field->is_sourced && is_number && !source.empty()) {
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

// Values of `upper` win; sections are merged, anything else is replaced whole.
void put_below(JsonValue& upper, JsonValue&& lower, const std::string& path) {
  for (JsonMember& member : lower.object()) {
    JsonValue* above = upper.find(member.key);
    const std::string child = path + "." + member.key;
    if (above == nullptr) {
      upper.object().push_back(std::move(member));
    } else if (above->is_object() && member.value.is_object() && find_section(child) != nullptr) {
      put_below(*above, std::move(member.value), child);
    }
  }
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
    if (value.has_value()) {
      put(path, whole, std::move(*value));
    }
  }

 private:
  // JSON if it is JSON, else the bare text: --set training.precision=fp32 needs no quotes.
  std::optional<JsonValue> parse(const std::string& written, const Span& whole) {
    const SourceText& text = texts_->emplace_back(SourceText{whole.source->name, written, true});
    ProblemList problems;
    std::optional<JsonValue> value = parse_json(text, problems);
    if (value.has_value() && problems.empty()) {
      return value;
    }
    const bool meant_as_json =
        !written.empty() && std::string_view("{[\"").find(written[0]) != std::string_view::npos;
    if (meant_as_json || written.size() > JsonLimits{}.max_string_bytes) {
      const Problem& first = problems.problems().front();
      problems_->add(first.code, whole, "", first.message, first.help);
      return std::nullopt;
    }
    return JsonValue{written, Span{&text, 0, written.size()}};
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

void report_unknown_preset(const JsonValue& name, const Section& section,
                           const std::vector<PresetInfo>& presets,
                           const std::vector<std::string>& directories, ProblemList& problems) {
  std::vector<std::string> names;
  names.reserve(presets.size());
  for (const PresetInfo& preset : presets) {
    names.push_back(preset.name);
  }
  const std::string near = nearest(name.string(), names);
  problems.add("E0105", name.span, "/" + section.path + "/preset",
               "no " + section.path + " is called \"" + printable(name.string(), 40) + "\"",
               names.empty() ? no_presets_help(directories) : "one of " + one_of_list(names),
               near.empty() ? "" : "did you mean \"" + near + "\"?", fix_of_choice(name, names));
}

// Reads the preset that `section` of the document names and merges it. False if that failed.
bool merge_preset(JsonValue& value, const Section& section,
                  const std::vector<std::string>& directories, SourceTexts& texts,
                  ProblemList& problems) {
  const JsonValue* name = value.find("preset");
  if (name == nullptr || !name->is_string() || name->string().empty()) {
    return name == nullptr || name->is_string();
  }
  // Looked up in the list, so a name can never become a path out of the folders.
  const std::vector<PresetInfo> presets = list_presets(section.preset_folder, directories);
  const auto found = std::find_if(presets.begin(), presets.end(), [name](const PresetInfo& preset) {
    return preset.name == name->string();
  });
  if (found == presets.end()) {
    report_unknown_preset(*name, section, presets, directories, problems);
    return false;
  }
  std::optional<std::string> text =
      read_regular_file(found->path, JsonLimits{}.max_bytes, problems);
  if (!text.has_value()) {
    return false;
  }
  const SourceText& source =
      texts.emplace_back(SourceText{found->path, std::move(*text), false, true});
  std::optional<JsonValue> preset = parse_json(source, problems);
  if (!preset.has_value()) {
    return false;
  }
  if (!preset->is_object() || preset->find("preset") != nullptr) {
    problems.add("E0108", preset->span, "/" + section.path,
                 "a preset is one object with the keys of \"" + section.path +
                     "\" and without a preset of its own");
    return false;
  }
  stamp_sources(*preset, section.path, "");
  put_below(value, std::move(*preset), section.path);
  return true;
}

}  // namespace

void apply_overrides(JsonValue& document, const std::vector<std::string>& overrides,
                     SourceTexts& texts, ProblemList& problems) {
  for (const std::string& flag : overrides) {
    expand_shorthand(document);
    Overrides(document, texts, problems).apply(flag);
  }
}

std::vector<std::string> merge_presets(JsonValue& document,
                                       const std::vector<std::string>& directories,
                                       SourceTexts& texts, ProblemList& problems) {
  std::vector<std::string> broken;
  expand_shorthand(document);
  for (const Section& section : section_table()) {
    JsonValue* value = section.preset_folder.empty() ? nullptr : document.find(section.path);
    if (value == nullptr || !value->is_object()) {
      continue;
    }
    stamp_sources(*value, section.path, "");
    if (!merge_preset(*value, section, directories, texts, problems)) {
      broken.push_back(section.path);
    }
  }
  return broken;
}

}  // namespace shardsim
