#include <algorithm>
#include <stdexcept>
#include <vector>

#include "sim/hardware/software.hpp"

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

struct Condition {
  const Field* field = nullptr;
  std::vector<FieldValue> values;  // One of them; none:
  double above = 0.0;              // more than that.

  [[nodiscard]] bool holds(const Scenario& scenario) const {
    const FieldValue value = field->get(scenario);
    if (!values.empty()) return std::ranges::find(values, value) != values.end();
    return static_cast<double>(std::get<std::int64_t>(value)) > above;
  }
};

struct DefaultRow {
  std::vector<Condition> conditions;
  std::string software;
};

// The table is part of the program: what it gets wrong is a fault of the build, which tests see.
[[noreturn]] void refuse(const std::string& why) {
  throw std::logic_error("scenarios/defaults/software.json: " + why);
}

FieldValue value_of(const JsonValue& json) {
  if (const auto* flag = std::get_if<bool>(&json.data)) return *flag;
  if (const auto* number = std::get_if<std::int64_t>(&json.data)) return *number;
  if (json.is_string()) return json.string();
  refuse("a value is a flag, a whole number or a text");
}

Condition condition_of(const JsonMember& member) {
  Condition condition{find_field(member.key), {}, 0.0};
  if (condition.field == nullptr) refuse("there is no field " + member.key);
  if (member.value.is_array()) {
    for (const JsonValue& value : member.value.array()) condition.values.push_back(value_of(value));
    return condition;
  }
  const JsonValue* const above = member.value.find("above");
  if (above == nullptr || !above->number()) refuse(member.key + " has neither values nor above");
  condition.above = *above->number();
  return condition;
}

std::vector<DefaultRow> read_rows() {
  const SourceText text{"defaults/software.json", software_defaults_text()};
  ProblemList problems;
  const std::optional<JsonValue> root = parse_json(text, problems);
  if (!root || !problems.empty()) refuse("it is no JSON");
  std::vector<DefaultRow> rows;
  for (const JsonValue& json : root->array()) {
    DefaultRow row{{}, json.find("software")->string()};
    if (find_software(row.software) == nullptr) refuse("there is no software " + row.software);
    for (const JsonMember& member : json.find("when")->object()) {
      row.conditions.push_back(condition_of(member));
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty() || !rows.back().conditions.empty()) refuse("the last row must always hold");
  return rows;
}

const std::vector<DefaultRow>& rows() {
  static const std::vector<DefaultRow> kRows = read_rows();
  return kRows;
}

}  // namespace

std::string software_of_any_layout() { return rows().back().software; }

std::string default_software(const Scenario& scenario) {
  const auto found = std::ranges::find_if(rows(), [&](const DefaultRow& row) {
    return std::ranges::all_of(row.conditions,
                               [&](const Condition& each) { return each.holds(scenario); });
  });
  return found->software;
}

}  // namespace shardsim
