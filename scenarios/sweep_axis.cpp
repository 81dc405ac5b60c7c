#include "scenarios/sweep_axis.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "scenarios/field.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

// A point is a run that writes no files and has the scenario's expectations.
bool may_vary(const std::string& path) {
  return path != "$schema" && path != "schema_version" && path.rfind("output.", 0) != 0 &&
         path.rfind("expect", 0) != 0;
}

void report_unknown_path(const JsonMember& member, const std::string& pointer,
                         ProblemList& problems) {
  const std::string& path = member.key;
  const std::string home = parent_path(path);
  KeyHint hint;
  if (find_section(home) != nullptr && path.find('.') != std::string::npos) {
    hint = hint_for_key(home, last_key(path));
  } else {
    std::vector<std::string> paths;
    for (const Field& field : field_table()) paths.push_back(field.path);
    const std::string near = nearest(path, paths);
    hint.help = "an axis is the full path of a field, such as \"parallelism.tp\"";
    if (!near.empty()) hint.label = "did you mean \"" + near + "\"?";
  }
  problems.add("E1301", member.key_span, pointer,
               "there is no field \"" + printable(path, 60) + "\" to vary", hint.help, hint.label);
}

// Whether `path` can be an axis; reports it if not.
bool check_path(const JsonMember& member, const std::string& pointer, ProblemList& problems) {
  const Field* field = find_field(member.key);
  const Section* section = find_section(member.key);
  const bool names_preset =
      section != nullptr && !member.key.empty() && !section->preset_folder.empty();
  if (field == nullptr && !names_preset) {
    report_unknown_path(member, pointer, problems);
    return false;
  }
  if (!may_vary(member.key)) {
    problems.add("E1301", member.key_span, pointer,
                 "\"" + member.key + "\" cannot vary from point to point",
                 "points write no files and share what is expected; leave it out");
    return false;
  }
  return true;
}

// Strips the origin from a number.
const JsonValue& plain(const Field& field, const JsonValue& value) {
  const JsonValue* inner = value.is_object() && field.is_sourced ? value.find("value") : nullptr;
  return inner != nullptr ? *inner : value;
}

bool check_value(const std::string& path, const JsonValue& value, const std::string& pointer,
                 ProblemList& problems) {
  const Field* field = find_field(path);
  if (field == nullptr) {  // A section, by its preset.
    if (value.is_string()) return true;
    problems.add("E1305", value.span, pointer,
                 "values of \"" + path + "\" are names of presets, not " + describe(value));
    return false;
  }
  bool automatic = false;
  return read_value(*field, plain(*field, value), pointer, problems, automatic).has_value() ||
         automatic;
}

void append_escaped(std::string& text, const std::string& raw) {
  text += '"';
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < ' ') {
      text += fmt::format("\\u{:04x}", byte);
    } else {
      text += c;
    }
  }
  text += '"';
}

void append_json(std::string& text, const JsonValue& value) {
  if (const auto* truth = std::get_if<bool>(&value.data)) {
    text += *truth ? "true" : "false";
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
    text += std::to_string(*whole);
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    text += number_text(*number);
  } else if (value.is_string()) {
    append_escaped(text, value.string());
  } else if (value.is_array()) {
    text += '[';
    for (const JsonValue& item : value.array()) {
      if (&item != value.array().data()) text += ',';
      append_json(text, item);
    }
    text += ']';
  } else if (value.is_object()) {
    text += '{';
    for (const JsonMember& member : value.object()) {
      if (&member != value.object().data()) text += ',';
      append_escaped(text, member.key);
      text += ':';
      append_json(text, member.value);
    }
    text += '}';
  } else {
    text += "null";
  }
}

// The values after "=": a JSON list without its brackets, or words between commas.
std::optional<JsonValue> values_of_flag(const std::string& written, const Span& whole,
                                        SourceTexts& texts) {
  const auto parsed = [&](const std::string& text) {
    ProblemList ignored;
    const SourceText& source = texts.emplace_back(SourceText{whole.source->name, text, true});
    std::optional<JsonValue> value = parse_json(source, ignored);
    return ignored.empty() ? value : std::nullopt;
  };
  if (written.empty()) return std::nullopt;
  if (std::optional<JsonValue> list = parsed("[" + written + "]")) return list;
  JsonArray items;
  for (std::size_t begin = 0; begin <= written.size();) {
    const std::size_t end = std::min(written.find(',', begin), written.size());
    const std::string word = written.substr(begin, end - begin);
    if (word.empty()) return std::nullopt;
    std::optional<JsonValue> value = parsed(word);
    items.push_back(value ? std::move(*value) : JsonValue{word, whole});
    begin = end + 1;
  }
  return JsonValue{std::move(items), whole};
}

}  // namespace

std::string json_text(const JsonValue& value) {
  std::string text;
  append_json(text, value);
  return text;
}

SweepAxis read_axis(const JsonMember& member, const std::string& pointer, ProblemList& problems) {
  SweepAxis axis{member.key, {}};
  if (!check_path(member, pointer, problems)) return axis;
  if (!member.value.is_array() || member.value.array().empty()) {
    problems.add("E1302", member.value.span, pointer,
                 "the axis \"" + member.key + "\" needs a list of values, not " +
                     (member.value.is_array() ? "an empty one" : describe(member.value)),
                 "such as [1, 2, 4]");
    return axis;
  }
  for (const JsonValue& value : member.value.array()) {
    const std::string place = pointer_to(pointer, std::to_string(axis.values.size()));
    std::string text = json_text(value);
    if (!check_value(member.key, value, place, problems)) return {member.key, {}};
    if (std::find(axis.values.begin(), axis.values.end(), text) != axis.values.end()) {
      problems.add("E1303", value.span, place,
                   "\"" + member.key + "\" takes the value " + printable(text, 40) + " twice",
                   "leave one of them out");
    }
    axis.values.push_back(std::move(text));
  }
  return axis;
}

void add_axis_flag(SweepBlock& sweep, const std::string& flag, SourceTexts& texts,
                   ProblemList& problems) {
  const SourceText& text = texts.emplace_back(SourceText{"--axis " + printable(flag), flag, true});
  const Span whole{&text, 0, flag.size()};
  const std::size_t equals = std::min(flag.find('='), flag.size());
  std::optional<JsonValue> values =
      equals < flag.size() ? values_of_flag(flag.substr(equals + 1), whole, texts) : std::nullopt;
  if (!values || equals == 0) {
    problems.add("E1302", whole, "", "--axis needs a path, '=' and values between commas",
                 "for example --axis parallelism.tp=1,2,4");
    return;
  }
  SweepAxis axis = read_axis({flag.substr(0, equals), whole, std::move(*values)}, "", problems);
  for (SweepDimension& dimension : sweep.dimensions) {
    if (dimension.size() == 1 && dimension.front().path == axis.path) {
      dimension.front() = std::move(axis);
      return;
    }
  }
  sweep.dimensions.push_back({std::move(axis)});
}

}  // namespace shardsim
