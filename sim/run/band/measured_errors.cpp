#include "sim/run/band/measured_errors.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/band/band_coverage.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kLineWidth = 100;
constexpr const char* kDenseModel = "dense";
constexpr const char* kExpertModel = "experts";

constexpr const char* kBandFileHead =
    "// Predicted / measured - 1 of every published measurement in the headline of `shardsim\n"
    "// validate`, by ranks; \"software\": \"none\" are the same runs predicted without a "
    "framework.\n"
    "// \"held_out_share\": the share of a group's rows in its band made without their table, in "
    "the\n"
    "// mean of tables.\n"
    "// Written by `shardsim validate --write-band FILE`, never by hand.\n";

[[noreturn]] void fail_band(const Span& span, const std::string& message) {
  throw_problem("E0932", span, message, "write the file again with --write-band");
}

std::string text_of(const JsonValue& group, const char* key) {
  const JsonValue* value = group.find(key);
  if (value == nullptr || !value->is_string())
    fail_band(group.span, fmt::format("\"{}\" is a text", key));
  return value->string();
}

std::int64_t ranks_of(const JsonMember& list) {
  const auto ranks = parse_number<std::int64_t>(list.key);
  if (!ranks || *ranks < 1) fail_band(list.key_span, "keys of \"errors\" are numbers of ranks");
  return *ranks;
}

double error_of(const JsonValue& value) {
  const auto* real = std::get_if<double>(&value.data);
  if (real == nullptr || !(*real > -1.0)) fail_band(value.span, "an error is a number above -1.0");
  return *real;
}

void read_group(const JsonValue& group, std::vector<MeasuredError>& errors) {
  if (!group.is_object()) fail_band(group.span, "a group of errors is an object");
  MeasuredError error;
  error.quantity = text_of(group, "quantity");
  error.table = text_of(group, "table");
  error.setting.device = text_of(group, "device");
  error.setting.software = text_of(group, "software");
  const std::string model = text_of(group, "model");
  error.setting.has_experts = model == kExpertModel;
  if (model != kExpertModel && model != kDenseModel) {
    fail_band(group.span, "\"model\" is \"dense\" or \"experts\"");
  }
  const JsonValue* lists = group.find("errors");
  if (lists == nullptr || !lists->is_object() || group.object().size() != 6) {
    fail_band(group.span,
              "a group has quantity, table, device, software, model and \"errors\": {}");
  }
  for (const JsonMember& list : lists->object()) {
    error.setting.ranks = ranks_of(list);
    if (!list.value.is_array()) fail_band(list.value.span, "errors are a list");
    for (const JsonValue& value : list.value.array()) {
      error.error = error_of(value);
      errors.push_back(error);
    }
  }
}

void read_share(const JsonValue& group, std::vector<HeldOutShare>& shares) {
  const auto* share = std::get_if<double>(&group.find("held_out_share")->data);
  if (share == nullptr || !(*share >= 0.0 && *share <= 1.0) || group.object().size() != 4) {
    fail_band(group.span, "a share has quantity, software, group and a number from 0.0 to 1.0");
  }
  shares.push_back({text_of(group, "quantity"), text_of(group, "software") != "none",
                    text_of(group, "group"), *share});
}

// "      "8": [0.1, 0.2]", broken where lines are full.
std::string list_text(std::int64_t ranks, std::vector<double> errors) {
  std::ranges::sort(errors);
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

using Group = std::tuple<std::string, std::string, std::string, std::string, bool>;

std::string group_text(const Group& group,
                       const std::map<std::int64_t, std::vector<double>>& lists) {
  const auto& [quantity, table, device, software, has_experts] = group;
  std::string text = fmt::format(
      "  {{\"quantity\": \"{}\", \"table\": \"{}\", \"device\": \"{}\",\n   \"software\": \"{}\", "
      "\"model\": \"{}\", \"errors\": {{\n",
      quantity, table, device, software, has_experts ? kExpertModel : kDenseModel);
  for (auto list = lists.begin(); list != lists.end(); ++list) {
    text += list_text(list->first, list->second) + (std::next(list) == lists.end() ? "\n" : ",\n");
  }
  return text + "  }}";
}

std::string shares_text(const std::vector<MeasuredError>& errors) {
  std::set<std::string> quantities;
  for (const MeasuredError& error : errors) quantities.insert(error.quantity);
  std::string text;
  for (const std::string& quantity : quantities) {
    for (const char* software : {"any", "none"}) {
      for (const GroupCoverage& group : band_coverage(errors, quantity, software).groups) {
        if (!group.has_band) continue;
        text += fmt::format(
            "  {{\"quantity\": \"{}\", \"software\": \"{}\",\n   \"group\": \"{}\", "
            "\"held_out_share\": {:.4f}}},\n",
            quantity, software, group.group, group.share_of_own_band);
      }
    }
  }
  return text;
}

}  // namespace

std::optional<double> held_out_share(const MeasuredErrors& known, const std::string& quantity,
                                     const std::string& software, const std::string& group) {
  for (const HeldOutShare& share : known.held_out) {
    if (share.quantity == quantity && share.has_framework == (software != "none") &&
        share.group == group) {
      return share.share;
    }
  }
  return std::nullopt;
}

std::string measured_errors_text(const std::vector<MeasuredError>& errors) {
  std::map<Group, std::map<std::int64_t, std::vector<double>>> groups;
  std::vector<MeasuredError> rounded = errors;
  for (MeasuredError& error : rounded) {
    const RunSetting& setting = error.setting;
    error.error = std::round(error.error * 1e4) / 1e4;
    if (error.error == 0.0) error.error = 0.0;  // Without a minus.
    groups[{error.quantity, error.table, setting.device, setting.software, setting.has_experts}]
          [setting.ranks]
              .push_back(error.error);
  }
  std::string text = std::string(kBandFileHead) + "[\n" + shares_text(rounded);
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    text += group_text(group->first, group->second);
    text += std::next(group) == groups.end() ? "\n" : ",\n";
  }
  return text + "]\n";
}

MeasuredErrors parse_measured_errors(const std::string& text, const std::string& file_name) {
  ProblemList problems;
  const SourceText source{file_name, text};
  const std::optional<JsonValue> root = parse_json(source, problems);
  problems.throw_if_any();
  if (!root->is_array()) fail_band(root->span, "a list of groups is needed here");
  MeasuredErrors known;
  for (const JsonValue& group : root->array()) {
    if (group.is_object() && group.find("held_out_share") != nullptr) {
      read_share(group, known.held_out);
    } else {
      read_group(group, known.errors);
    }
  }
  return known;
}

}  // namespace shardsim
