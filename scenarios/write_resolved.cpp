#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
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

// One key of all objects in a list. An empty list is written only if the document itself holds it.
void add_item_field(const Field& field, const Scenario& scenario, Json& document) {
  std::string list = parent_path(field.path);
  list.resize(list.size() - 2);  // Without "[]".
  const std::size_t count = find_section(list)->items.count(scenario);
  if (count == 0 && !parent_path(list).empty()) return;
  Json& array = document[Json::json_pointer(pointer_of(list))];
  if (array.is_null()) array = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    if (array.size() <= i) array.push_back(Json::object());
    const std::optional<FieldValue> value = field.get_item(scenario, i);
    if (value) array[i][last_key(field.path)] = to_json(*value);
  }
}

}  // namespace

bool is_meaningful(const Field& field, const Scenario& scenario) {
  const bool attention =
      field.path == "model.num_attention_heads" || field.path == "model.num_query_groups";
  if (attention && scenario.model.family == ModelFamily::mlp) return false;
  if (field.path == "system.pcie_gb_per_s") return scenario.system.network.is_nccl();
  if (field.path.rfind("faults.", 0) == 0) return scenario.faults.has_failures();
  return scenario.model.num_experts > 0 || !is_about_experts(field.path);
}

std::string write_resolved(const Scenario& scenario) {
  Json document = Json::object();
  for (const Field& field : field_table()) {
    if (is_item_field(field)) {
      add_item_field(field, scenario, document);
    } else if (field.get != nullptr && is_meaningful(field, scenario)) {
      document[Json::json_pointer(pointer_of(field.path))] = to_json(field.get(scenario));
    }
  }
  return document.dump(2);
}

}  // namespace shardsim
