#include "scenarios/write_resolved.hpp"

#include <cmath>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "scenarios/reading.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const FieldValue& value) {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    return *list;
  }
  if (const auto* number = std::get_if<double>(&value)) {
    // 400 rather than 400.0: as people write it, and the same for a number given either way.
    if (*number == std::floor(*number) && std::fabs(*number) < 1e15) {
      return static_cast<std::int64_t>(*number);
    }
    return *number;
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return *text;
  }
  if (const auto* truth = std::get_if<bool>(&value)) {
    return *truth;
  }
  return std::get<std::int64_t>(value);
}

bool is_about_experts(const std::string& path) {
  static const std::set<std::string> kFields = {
      "model.num_experts",        "model.num_experts_per_token", "model.moe_ffn_hidden_size",
      "model.num_shared_experts", "model.first_dense_layers",    "model.moe_capacity_factor",
      "model.moe_aux_loss_coeff", "model.moe_routing",           "model.moe_skew",
      "model.moe_popularity_file"};
  return kFields.count(path) > 0;
}

}  // namespace

bool is_meaningful(const Field& field, const Scenario& scenario) {
  const bool attention =
      field.path == "model.num_attention_heads" || field.path == "model.num_query_groups";
  if (attention && scenario.model.family == ModelFamily::mlp) return false;
  return scenario.model.num_experts > 0 || !is_about_experts(field.path);
}

std::string write_resolved(const Scenario& scenario) {
  Json document = Json::object();
  for (const Field& field : field_table()) {
    if (field.get == nullptr || !is_meaningful(field, scenario)) {
      continue;
    }
    if (parent_path(field.path) != "expect[]") {
      document[Json::json_pointer(pointer_of(field.path))] = to_json(field.get(scenario));
    } else if (!document.contains("expect")) {
      document["expect"] = Json::array();
      for (const Expectation& expectation : scenario.expect) {
        document["expect"].push_back({{"metric", expectation.metric},
                                      {"op", to_string(expectation.op)},
                                      {"value", to_json(expectation.value)}});
      }
    }
  }
  return document.dump(2);
}

}  // namespace shardsim
