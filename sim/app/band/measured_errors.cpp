#include "sim/app/band/measured_errors.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kLineWidth = 100;

constexpr const char* kHead =
    "// Predicted / measured - 1 of every published measurement in the headline of `shardsim\n"
    "// validate`, by ranks; \"software\": \"none\" are the same runs predicted without a "
    "framework.\n"
    "// Written by `shardsim validate --write-band FILE`, never by hand.\n";

[[noreturn]] void fail(const Span& span, const std::string& message) {
  ProblemList problems;
  problems.add("E0932", span, "", message, "write the file again with --write-band");
  throw ScenarioError(problems.problems(), problems.num_dropped());
}

std::string text_of(const JsonValue& group, const char* key) {
  const JsonValue* value = group.find(key);
  if (value == nullptr || !value->is_string())
    fail(group.span, fmt::format("\"{}\" is a text", key));
  return value->string();
}

std::int64_t ranks_of(const JsonMember& list) {
  std::int64_t ranks = 0;
  const char* end = list.key.data() + list.key.size();
  const auto [stop, error] = std::from_chars(list.key.data(), end, ranks);
  if (error != std::errc() || stop != end || ranks < 1) {
    fail(list.key_span, "keys of \"errors\" are numbers of ranks");
  }
  return ranks;
}

double error_of(const JsonValue& value) {
  const auto* real = std::get_if<double>(&value.data);
  if (real == nullptr || !(*real > -1.0)) fail(value.span, "an error is a number above -1.0");
  return *real;
}

void read_group(const JsonValue& group, std::vector<MeasuredError>& errors) {
  if (!group.is_object()) fail(group.span, "a group of errors is an object");
  MeasuredError error;
  error.quantity = text_of(group, "quantity");
  error.table = text_of(group, "table");
  error.setting.device = text_of(group, "device");
  error.setting.software = text_of(group, "software");
  const JsonValue* lists = group.find("errors");
  if (lists == nullptr || !lists->is_object() || group.object().size() != 5) {
    fail(group.span, "a group has quantity, table, device, software and \"errors\": {}");
  }
  for (const JsonMember& list : lists->object()) {
    error.setting.ranks = ranks_of(list);
    if (!list.value.is_array()) fail(list.value.span, "errors are a list");
    for (const JsonValue& value : list.value.array()) {
      error.error = error_of(value);
      errors.push_back(error);
    }
  }
}

// "      "8": [0.1, 0.2]", broken where lines are full.
std::string list_text(std::int64_t ranks, std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  std::string text;
  std::string line = fmt::format("    \"{}\": [", ranks);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string number =
        fmt::format("{:.4f}{}", errors[i], i + 1 == errors.size() ? "]" : ",");
    if (line.size() + 1 + number.size() > kLineWidth) {
      text += line + "\n";
      line = "     ";
    }
    line += (line.back() == '[' ? "" : " ") + number;
  }
  return text + line;
}

using Group = std::tuple<std::string, std::string, std::string, std::string>;

std::string group_text(const Group& group,
                       const std::map<std::int64_t, std::vector<double>>& lists) {
  const auto& [quantity, table, device, software] = group;
  std::string text = fmt::format(
      "  {{\"quantity\": \"{}\", \"table\": \"{}\", \"device\": \"{}\",\n   \"software\": \"{}\", "
      "\"errors\": {{\n",
      quantity, table, device, software);
  for (auto list = lists.begin(); list != lists.end(); ++list) {
    text += list_text(list->first, list->second) + (std::next(list) == lists.end() ? "\n" : ",\n");
  }
  return text + "  }}";
}

}  // namespace

std::string measured_errors_text(const std::vector<MeasuredError>& errors) {
  std::map<Group, std::map<std::int64_t, std::vector<double>>> groups;
  for (const MeasuredError& error : errors) {
    const RunSetting& setting = error.setting;
    const double rounded = std::round(error.error * 1e4) / 1e4;
    groups[{error.quantity, error.table, setting.device, setting.software}][setting.ranks]
        .push_back(rounded == 0.0 ? 0.0 : rounded);  // Without a minus.
  }
  std::string text = std::string(kHead) + "[\n";
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    text += group_text(group->first, group->second);
    text += std::next(group) == groups.end() ? "\n" : ",\n";
  }
  return text + "]\n";
}

std::vector<MeasuredError> parse_measured_errors(const std::string& text,
                                                 const std::string& file_name) {
  ProblemList problems;
  const SourceText source{file_name, text};
  const std::optional<JsonValue> root = parse_json(source, problems);
  if (!problems.empty()) throw ScenarioError(problems.problems(), problems.num_dropped());
  if (!root->is_array()) fail(root->span, "a list of groups is needed here");
  std::vector<MeasuredError> errors;
  for (const JsonValue& group : root->array()) read_group(group, errors);
  return errors;
}

}  // namespace shardsim
