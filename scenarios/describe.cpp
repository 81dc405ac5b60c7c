#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/metric_table.hpp"

#include "scenarios/field.hpp"
#include "scenarios/load.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/suggest.hpp"

// Texts that follow from the field table: the JSON Schema, the reference page, and a scenario with
// nothing left out.
namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

// Adds whole numbers without a point, as people write them, unless they are huge.
void add_range(Json& schema, const NumberRange& range) {
  constexpr double kHuge = 1e18;
  const auto shown = [huge = range.max > kHuge](double value) {
    const bool whole = !huge && value == static_cast<double>(static_cast<std::int64_t>(value));
    return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  schema[range.above_min ? "exclusiveMinimum" : "minimum"] = shown(range.min);
  schema[range.below_max ? "exclusiveMaximum" : "maximum"] = shown(range.max);
}

// By FieldType.
constexpr std::array kSchemaTypes = {"boolean", "integer", "number", "string",
                                     "string",  "array",   "array"};

Json value_schema(const Field& field) {
  Json schema = Json::object();
  schema["type"] = kSchemaTypes.at(static_cast<std::size_t>(field.type));
  switch (field.type) {
    case FieldType::boolean:
      break;
    case FieldType::integer:
    case FieldType::number:
      add_range(schema, field.limits);
      break;
    case FieldType::text:
      schema["maxLength"] = 4096;
      break;
    case FieldType::choice:
      schema["enum"] = field.choices;
      break;
    case FieldType::rank_list:
    case FieldType::integer_list:
      schema["minItems"] = 1;
      schema["items"] = {{"type", "integer"}};
      add_range(schema["items"], field.limits);
      break;
  }
  return schema;
}

Json field_schema(const Field& field) {
  Json value = value_schema(field);
  Json schema = value;
  if (field.is_sourced || field.takes_auto) {
    Json forms = Json::array({value});
    if (field.takes_auto) forms.push_back({{"const", "auto"}});
    if (field.is_sourced) {
      forms.push_back({{"type", "object"},
                       {"properties", {{"value", value}, {"source", {{"type", "string"}}}}},
                       {"required", {"value", "source"}},
                       {"additionalProperties", false}});
    }
    schema = {{"anyOf", forms}};
  }
  std::string text = field.meaning;
  if (!field.units.empty()) text += " Unit: " + field.units + ".";
  if (!field.derived_words.empty()) text += " Default: " + field.derived_words + ".";
  if (!field.acts_words.empty()) text += " Acts only when " + field.acts_words + ".";
  if (!field.missing_part.empty()) {
    text += " Refused so far: " + field.missing_part + " is not built yet.";
  }
  schema["description"] = text;
  if (!field.default_json.empty()) schema["default"] = Json::parse(field.default_json);
  return schema;
}

// The object of a section: its fields, then the sections inside it.
Json section_schema(const Section& section) {
  const std::string inside = section.is_list ? section.path + "[]" : section.path;
  Json object = {{"type", "object"}, {"additionalProperties", false}};
  Json required = Json::array();
  for (const Field& field : field_table()) {
    if (parent_path(field.path) != inside) continue;
    const std::string key = last_key(field.path);
    object["properties"][key] = field_schema(field);
    // A file need not repeat the fields of a preset.
    const bool from_preset = inside.starts_with("system") || inside.starts_with("model");
    if (field.is_required && !from_preset) required.push_back(key);
  }
  for (const Section& child : section_table()) {
    if (!child.path.empty() && parent_path(child.path) == section.path) {
      object["properties"][last_key(child.path)] = section_schema(child);
      if (!child.preset_folder.empty() || child.path == "training") required.push_back(child.path);
    }
  }
  if (!required.empty()) object["required"] = required;
  Json schema = object;
  if (section.is_list) {
    schema = {{"type", "array"}, {"items", object}};
  } else if (!section.preset_folder.empty()) {
    schema = {{"anyOf", {Json{{"type", "string"}}, object}}};
  }
  schema["description"] = section.meaning;
  return schema;
}

// This is no section of fields: its keys are paths of fields.
Json sweep_schema() {
  const Json axes = {{"type", "object"},
                     {"additionalProperties", {{"type", "array"}, {"minItems", 1}}},
                     {"description", "Path of a field, and the values it takes."}};
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties",
           {{"axes", axes},
            {"zip",
             {{"type", "array"},
              {"items", axes},
              {"description", "Groups of axes whose values go together, one by one."}}},
            {"skip",
             {{"type", "array"},
              {"items", {{"enum", {"invalid", "out_of_memory", "failed"}}}},
              {"description", "Points that are left out of the result."}}},
            {"objectives",
             {{"type", "array"},
              {"items", {{"type", "string"}, {"pattern", "^(max|min) [a-z_.]+$"}}},
              {"description", "The aim: max METRIC or min METRIC."}}}}},
          {"description", "Fields that `shardsim sweep` varies. Other verbs leave it out."}};
}

constexpr const char* kOpening = R"(# Scenario reference

This page is generated from the field table; `shardsim schema` prints the same as a JSON Schema.

A scenario is JSON. Comments (`//` and `/* */`) are allowed; unknown keys, keys that stand twice and
values out of range are errors. Units are part of the names: GB is 10^9 bytes, GiB is 2^30 bytes.

What a preset says is overridden by the file, and the file by `--set a.b=value`. Any number of
`model` and `system` may be written with its origin: `{"value": 450, "source": "where from"}`.

A field that is written although it does not act (column "acts when"; empty: always) is a warning.

A block `sweep` beside these sections is for `shardsim sweep` ([sweep.md](sweep.md)); other verbs
check it and leave it out.
)";

std::string bound(double value) {
  // Powers of two read better as such.
  for (int power = 14; power <= 53; ++power) {
    if (value == static_cast<double>(std::int64_t{1} << power)) return "2^" + std::to_string(power);
  }
  return number_text(value);
}

std::string plain_values_of(const Field& field) {
  const NumberRange& range = field.limits;
  const std::string numbers = (range.above_min ? "above " : "from ") + bound(range.min) +
                              (range.below_max ? " to below " : " to ") + bound(range.max);
  switch (field.type) {
    case FieldType::boolean:
      return "`true`, `false`";
    case FieldType::integer:
      return range.min == range.max ? "`" + bound(range.min) + "`" : "whole, " + numbers;
    case FieldType::number:
      return range.max > 1e100 ? "number" : "number, " + numbers;
    case FieldType::text:
      return "text";
    case FieldType::choice:
      return fmt::format("`{}`", fmt::join(field.choices, "`, `"));
    case FieldType::rank_list:
      return "list of ranks";
    case FieldType::integer_list:
      return "list of whole numbers, " + numbers;
  }
  return "";
}

std::string values_of(const Field& field) {
  return plain_values_of(field) + (field.takes_auto ? ", or `\"auto\"`" : "");
}

std::string default_words_of(const Field& field) {
  if (field.is_required) return "required";
  if (!field.derived_words.empty()) return field.derived_words;
  return field.default_json.empty() ? "" : "`" + field.default_json + "`";
}

std::string notes_of(const Field& field) {
  std::string text = field.meaning;
  if (!field.missing_part.empty()) {
    text += field.served.empty() ? " Any other value is refused"
                                 : " Only " + one_of_list(field.served) + " are served";
    text += " until " + field.missing_part + " is built.";
  }
  if (!field.foreign_names.empty()) {
    text += " Elsewhere: ";
    for (std::size_t i = 0; i < field.foreign_names.size(); ++i) {
      const ForeignName& foreign = field.foreign_names[i];
      text += (i == 0 ? "`" : ", `") + foreign.name + "` (" + foreign.tool + ")";
    }
    text += ".";
  }
  return text;
}

Json to_json(const FieldValue& value) {
  // 400 rather than 400.0: as people write it, and the same for a number given either way.
  const auto* const number = std::get_if<double>(&value);
  if (number != nullptr && *number == std::floor(*number) && std::fabs(*number) < 1e15) {
    return static_cast<std::int64_t>(*number);
  }
  return std::visit([](const auto& held) { return Json(held); }, value);
}

bool is_about_latents(const std::string& path) {
  return path.ends_with("_lora_rank") || path.starts_with("model.qk_");
}

bool is_about_experts(const std::string& path) {
  return path.starts_with("model.moe_") || path.starts_with("model.num_experts") ||
         path == "model.num_shared_experts" || path == "model.first_dense_layers";
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

std::string scenario_schema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "shardsim scenario, version 1"}};
  schema.update(section_schema(section_table().front()));
  schema["properties"]["sweep"] = sweep_schema();
  return schema.dump(2) + "\n";
}

std::string scenario_reference() {
  std::string page = kOpening;
  for (const Section& section : section_table()) {
    const std::string inside = section.is_list ? section.path + "[]" : section.path;
    page +=
        "\n## " + (section.path.empty() ? "The document" : "`" + inside + "`") + "\n\n" +
        section.meaning +
        "\n\n| key | values | unit | default | acts when | meaning |\n|---|---|---|---|---|---|\n";
    for (const Field& field : field_table()) {
      if (parent_path(field.path) == inside) {
        page += "| `" + last_key(field.path) + "` | " + values_of(field) + " | " + field.units +
                " | " + default_words_of(field) + " | " + field.acts_words + " | " +
                notes_of(field) + " |\n";
      }
    }
  }
  page += "\n## Metrics that `expect` may name\n\n";
  for (const std::string& metric : metrics_to_expect()) {
    page += "- `" + metric + "`" + (is_oracle_metric(metric) ? " (real tensors)" : "") + "\n";
  }
  return page;
}

bool is_meaningful(const Field& field, const Scenario& scenario) {
  const bool attention = field.path == "model.num_attention_heads" ||
                         field.path == "model.num_query_groups" || field.path == "model.head_dim" ||
                         field.path == "model.value_head_dim";
  if (attention && scenario.model.family == ModelFamily::mlp) return false;
  if (is_about_latents(field.path)) return scenario.model.is_latent();
  const bool is_of_latent_heads =
      field.path == "model.head_dim" || field.path == "model.rotary_dim";
  if (is_of_latent_heads && scenario.model.is_latent()) return false;
  const bool is_of_recurrence =
      field.path.rfind("model.linear_", 0) == 0 || field.path.rfind("model.mamba_", 0) == 0;
  if (is_of_recurrence) return field.acts(scenario);
  if (field.path == "model.ffn_hidden_size") return scenario.model.ffn_hidden_size > 0;
  if (field.path == "system.pcie_gb_per_s") return scenario.system.network.is_nccl();
  if (field.path.rfind("faults.draws.", 0) == 0) return scenario.faults.draws.count > 0;
  if (field.path.rfind("faults.", 0) == 0) return scenario.faults.has_failures();
  return scenario.model.num_experts > 0 || !is_about_experts(field.path);
}

namespace {

// Values that a layout, a batch and a machine decide, where nothing else was asked for. Machine
// and model stay as they are: half of them would be the preset's, and half another's.
bool may_follow(const Field& field) {
  if (field.path == "system.ranks" || field.path == "output.trace_ranks") return true;
  const std::string section = parent_path(field.path);
  if (section != "parallelism" && section != "training") return false;
  return !field.derived_words.empty() || field.path == "parallelism.dp_replicate";
}

}  // namespace

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

// The text is read again without each value. That tells whether it follows, whatever the rule is:
// layers of uneven stages were chosen, those of even ones were not.
std::string write_changeable(const Scenario& scenario) {
  const std::string resolved = write_resolved(scenario);
  Json document = Json::parse(resolved);
  for (const Field& field : field_table()) {
    if (!may_follow(field)) continue;
    Json without = document;
    const Json::json_pointer pointer(pointer_of(field.path));
    if (!without.contains(pointer)) continue;
    without.at(pointer.parent_pointer()).erase(pointer.back());
    const std::string text = without.dump(2);
    try {
      if (load_scenario_text(text, "the layout").resolved_json == resolved) document = without;
    } catch (const ScenarioError&) {
      // A value that cannot be left out stays.
      continue;
    }
  }
  return document.dump(2);
}

}  // namespace shardsim
