#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/json_writer.hpp"

#include "tests/reports/sample_results.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

const Json& schema() {
  static const Json kSchema = Json::parse(std::ifstream("reports/schema/result.schema.json"));
  return kSchema;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  FAIL("the schema has a type unknown to JSON Schema: " << type);
  return false;
}

void validate(const Json& value, const Json& rule, const std::string& at,
              std::vector<std::string>& problems);

void validate_object(const Json& value, const Json& rule, const std::string& at,
                     std::vector<std::string>& problems) {
  for (const Json& key : rule.value("required", Json::array())) {
    if (!value.contains(key)) problems.push_back(at + ": lacks " + key.get<std::string>());
  }
  const Json properties = rule.value("properties", Json::object());
  const Json others = rule.value("additionalProperties", Json(true));
  for (const auto& item : value.items()) {
    const std::string place = at + "/" + item.key();
    if (properties.contains(item.key())) {
      validate(item.value(), properties[item.key()], place, problems);
    } else if (others.is_object()) {
      validate(item.value(), others, place, problems);
    } else if (others == false) {
      problems.push_back(place + ": not in the schema");
    }
  }
}

/// The keywords that the schema uses; any other is a failure, so that none is ignored.
void validate(const Json& value, const Json& rule, const std::string& at,
              std::vector<std::string>& problems) {
  const std::vector<std::string> known = {
      "$schema",  "title",      "description",          "type", "const",
      "required", "properties", "additionalProperties", "items"};
  for (const auto& keyword : rule.items()) {
    INFO(keyword.key());
    REQUIRE(std::find(known.begin(), known.end(), keyword.key()) != known.end());
  }
  if (rule.contains("const") && value != rule["const"]) problems.push_back(at + ": wrong constant");
  if (rule.contains("type")) {
    const Json types = rule["type"].is_array() ? rule["type"] : Json::array({rule["type"]});
    const bool fits = std::any_of(types.begin(), types.end(),
                                  [&](const Json& type) { return has_type(value, type); });
    if (!fits) problems.push_back(at + ": wrong type");
  }
  if (value.is_object()) validate_object(value, rule, at, problems);
  if (value.is_array() && rule.contains("items")) {
    for (const Json& item : value) validate(item, rule["items"], at + "/-", problems);
  }
}

std::vector<std::string> problems_of(const Json& result) {
  std::vector<std::string> problems;
  validate(result, schema(), "", problems);
  return problems;
}

TEST_CASE("every kind of result obeys the published schema") {
  for (const samples::Sample& sample :
       {samples::plan(), samples::verified(), samples::failed_verify(), samples::deadlock(),
        samples::infeasible()}) {
    INFO(sample.headline.name);
    REQUIRE(problems_of(Json::parse(to_json(sample.result))).empty());
  }
}

TEST_CASE("the schema lists exactly the metric names, in their order") {
  std::vector<std::string> names;
  for (const auto& item : schema()["properties"]["metrics"]["properties"].items()) {
    names.push_back(item.key());
    INFO(item.key());
    REQUIRE_FALSE(item.value().value("description", "").empty());
  }
  REQUIRE(names == metric_names());
}

TEST_CASE("a key more, a key less or another type is against the schema") {
  const Json good = Json::parse(to_json(samples::deadlock().result));
  Json bad = good;
  bad.erase("warnings");
  REQUIRE(problems_of(bad) == std::vector<std::string>{": lacks warnings"});
  bad = good;
  bad["extra"] = 1;
  REQUIRE(problems_of(bad) == std::vector<std::string>{"/extra: not in the schema"});
  bad = good;
  bad["diagnosis"]["sides"][0].erase("file");
  REQUIRE(problems_of(bad) == std::vector<std::string>{"/diagnosis/sides/-: lacks file"});
  bad = good;
  bad["metrics"]["mfu"] = "high";
  REQUIRE(problems_of(bad) == std::vector<std::string>{"/metrics/mfu: wrong type"});
  bad = good;
  bad["schema_version"] = 2;
  REQUIRE(problems_of(bad) == std::vector<std::string>{"/schema_version: wrong constant"});
}

}  // namespace
}  // namespace shardsim
