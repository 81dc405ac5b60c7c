#include "scenarios/sweep_block.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/metric_table.hpp"
#include "sim/kernel/text.hpp"

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
    hint.label = near_label(path, paths);
    hint.help = "an axis is the full path of a field, such as \"parallelism.tp\"";
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

std::string json_string(const std::string& raw) {
  std::string text = "\"";
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ') {
      text += fmt::format("\\u{:04x}", byte);
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + '"';
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
  for (const std::string_view part : split_at(written, ',')) {
    if (part.empty()) return std::nullopt;
    const std::string word(part);
    std::optional<JsonValue> value = parsed(word);
    items.push_back(value ? std::move(*value) : JsonValue{word, whole});
  }
  return JsonValue{std::move(items), whole};
}

// Reads a field that can be set, and the list of values it takes (E1301 to E1303, E1305, and those
// of the field). Without values where something is wrong.
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

class SweepReader {
 public:
  explicit SweepReader(ProblemList& problems) : problems_(problems) {}

  SweepBlock read(const JsonValue& block) {
    if (!block.is_object()) {
      problems_.add("E1305", block.span, kPointer,
                    "\"sweep\" must be an object, not " + describe(block),
                    "such as {\"axes\": {\"parallelism.tp\": [1, 2, 4]}}");
      return {};
    }
    for (const JsonMember& member : block.object()) {
      const std::string pointer = pointer_to(kPointer, member.key);
      if (member.key == "axes") {
        read_axes(member.value, pointer);
      } else if (member.key == "zip") {
        read_zip(member.value, pointer);
      } else if (member.key == "skip") {
        read_skip(member.value, pointer);
      } else if (member.key == "objectives") {
        read_objectives(member.value, pointer);
      } else {
        problems_.add("E1305", member.key_span, pointer,
                      "unknown key \"" + printable(member.key, 40) + "\" in \"sweep\"",
                      R"(the keys here are "axes", "zip", "skip" and "objectives")",
                      near_label(member.key, {"axes", "zip", "skip", "objectives"}));
      }
    }
    check_dimensions(sweep_, block.span, problems_);
    return std::move(sweep_);
  }

 private:
  static constexpr const char* kPointer = "/sweep";

  bool require(bool holds, const JsonValue& value, const std::string& pointer, const char* wanted) {
    if (holds) return true;
    problems_.add("E1305", value.span, pointer,
                  "\"" + pointer.substr(pointer.rfind('/') + 1) + "\" must be " + wanted +
                      ", not " + describe(value));
    return false;
  }

  void read_axes(const JsonValue& axes, const std::string& pointer) {
    if (!require(axes.is_object(), axes, pointer, "an object")) return;
    for (const JsonMember& member : axes.object()) {
      sweep_.dimensions.push_back({read_axis(member, pointer_to(pointer, member.key), problems_)});
    }
  }

  void read_zip(const JsonValue& zip, const std::string& pointer) {
    if (!require(zip.is_array(), zip, pointer, "a list of objects")) return;
    for (std::size_t i = 0; i < zip.array().size(); ++i) {
      read_group(zip.array()[i], pointer_to(pointer, std::to_string(i)));
    }
  }

  void read_group(const JsonValue& group, const std::string& pointer) {
    if (!require(group.is_object() && !group.object().empty(), group, pointer,
                 "an object with axes that go together")) {
      return;
    }
    SweepDimension dimension;
    for (const JsonMember& member : group.object()) {
      dimension.push_back(read_axis(member, pointer_to(pointer, member.key), problems_));
      const SweepAxis& first = dimension.front();
      const SweepAxis& last = dimension.back();
      if (first.values.empty() || last.values.empty()) continue;  // Reported already.
      if (first.values.size() != last.values.size()) {
        problems_.add("E1304", member.value.span, pointer_to(pointer, member.key),
                      fmt::format("\"{}\" has {} values, but \"{}\" beside it has {}", last.path,
                                  last.values.size(), first.path, first.values.size()),
                      "axes of one zip group go together value by value");
        return;
      }
    }
    sweep_.dimensions.push_back(std::move(dimension));
  }

  void read_skip(const JsonValue& skip, const std::string& pointer) {
    static const std::vector<std::string> kMaySkip = {"invalid", "out_of_memory", "failed"};
    if (!require(skip.is_array(), skip, pointer, "a list")) return;
    for (const JsonValue& item : skip.array()) {
      const bool known = item.is_string() && std::find(kMaySkip.begin(), kMaySkip.end(),
                                                       item.string()) != kMaySkip.end();
      if (known) {
        sweep_.skip.insert(item.string());
        continue;
      }
      problems_.add(
          "E1305", item.span, pointer,
          "points cannot be skipped for being " +
              (item.is_string() ? "\"" + printable(item.string(), 40) + "\"" : describe(item)),
          "one of " + one_of_list(kMaySkip),
          item.is_string() ? near_label(item.string(), kMaySkip) : "");
    }
  }

  void read_objectives(const JsonValue& objectives, const std::string& pointer) {
    if (!require(objectives.is_array(), objectives, pointer, "a list")) return;
    for (const JsonValue& item : objectives.array()) {
      if (require(item.is_string(), item, pointer, "a list of texts")) {
        read_objective(item, pointer);
      }
    }
  }

  void read_objective(const JsonValue& item, const std::string& pointer) {
    const std::string& text = item.string();
    const std::string sense = text.substr(0, text.find(' '));
    const std::string metric = sense.size() < text.size() ? text.substr(sense.size() + 1) : "";
    const std::vector<std::string>& known = metrics_to_expect();
    if ((sense != "max" && sense != "min") || metric.empty()) {
      problems_.add(
          "E1305", item.span, pointer,
          "an objective is \"max METRIC\" or \"min METRIC\", not \"" + printable(text, 40) + "\"",
          fmt::format("for example \"max {}\"", metric::kTokensPerSPerGpu.name));
    } else if (std::find(known.begin(), known.end(), metric) == known.end()) {
      problems_.add("E1305", item.span, pointer,
                    "there is no metric \"" + printable(metric, 40) + "\"",
                    "docs/guide/scenario-reference.md lists all", near_label(metric, known));
    } else {
      sweep_.objectives.push_back({sense == "max", metric});
    }
  }

  ProblemList& problems_;
  SweepBlock sweep_;
};

}  // namespace

std::string json_text(const JsonValue& value) {
  if (const auto* truth = std::get_if<bool>(&value.data)) return *truth ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value.data)) return number_text(*number);
  if (value.is_string()) return json_string(value.string());
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const JsonValue& item : value.array()) parts.push_back(json_text(item));
    return fmt::format("[{}]", fmt::join(parts, ","));
  }
  if (!value.is_object()) return "null";
  for (const JsonMember& member : value.object()) {
    parts.push_back(json_string(member.key) + ":" + json_text(member.value));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}

std::size_t SweepBlock::num_points() const {
  std::size_t points = dimensions.empty() ? 0 : 1;
  for (const SweepDimension& dimension : dimensions) {
    const std::size_t values = dimension.front().values.size();
    // Far above what is allowed, and far below an overflow.
    points = std::min(points, 2 * kMaxSweepPoints) * std::min(values, 2 * kMaxSweepPoints);
  }
  return points;
}

SweepBlock read_sweep(const JsonValue& block, ProblemList& problems) {
  return SweepReader(problems).read(block);
}

void check_dimensions(const SweepBlock& sweep, const Span& where, ProblemList& problems) {
  std::set<std::string> paths;
  for (const SweepDimension& dimension : sweep.dimensions) {
    for (const SweepAxis& axis : dimension) {
      if (!paths.insert(axis.path).second) {
        problems.add("E1303", where, "/sweep", "\"" + axis.path + "\" is an axis twice",
                     "leave one of them out");
      }
    }
  }
  if (sweep.num_points() > kMaxSweepPoints) {
    problems.add("E1306", where, "/sweep",
                 fmt::format("the sweep has more than {} points", kMaxSweepPoints),
                 "take fewer values, or put axes that go together into a \"zip\" group");
  }
}

JsonValue take_sweep(JsonValue& document) {
  JsonObject& members = document.object();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [](const JsonMember& member) { return member.key == "sweep"; });
  if (found == members.end()) return JsonValue{nullptr, {}};
  JsonValue block = std::move(found->value);
  members.erase(found);
  return block;
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
