#include <nlohmann/json.hpp>

#include "sim/diff/comparison.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

const char* name_of(SideKind kind) {
  switch (kind) {
    case SideKind::simulated:
      return "simulated";
    case SideKind::measured_result:
      return "measured";
    case SideKind::megatron_log:
      return "megatron_log";
    case SideKind::profiler_trace:
      return "profiler_trace";
  }
  return "";
}

const char* name_of(BandVerdict verdict) {
  switch (verdict) {
    case BandVerdict::no_band:
      return "no_band";
    case BandVerdict::distinguishable:
      return "distinguishable";
    case BandVerdict::within_band:
      return "within_band";
    case BandVerdict::unlike:
      return "unlike";
  }
  return "";
}

Json side_object(const RunSide& side) {
  Json object = {{"file", side.file}, {"kind", name_of(side.kind)}, {"what", side.what}};
  if (side.band) object["step_time_band_s"] = {side.band->low_s, side.band->high_s};
  object["notes"] = side.notes;
  return object;
}

Json row_object(const DiffRow& row) {
  return {{"name", row.name}, {"a", row.a}, {"b", row.b}, {"difference", row.difference()}};
}

Json rows_array(const std::vector<DiffRow>& rows) {
  Json array = Json::array();
  for (const DiffRow& row : rows) array.push_back(row_object(row));
  return array;
}

Json table_object(const DiffTable& table) {
  return {{"total", row_object(table.total)}, {"parts", rows_array(table.rows)}};
}

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

// Outcomes that a side does not have are null there.
Json outcomes_array(const std::vector<Outcome>& outcomes) {
  Json array = Json::array();
  for (const Outcome& outcome : outcomes) {
    array.push_back({{"name", outcome.metric},
                     {"a", number_or_null(outcome.a)},
                     {"b", number_or_null(outcome.b)}});
  }
  return array;
}

}  // namespace

std::string diff_json(const RunComparison& comparison) {
  Json root = {{"schema_version", kSchemaVersion},
               {"a", side_object(comparison.a)},
               {"b", side_object(comparison.b)},
               {"time_ps", table_object(comparison.time)}};
  if (comparison.memory) root["memory_bytes"] = table_object(*comparison.memory);
  root["traffic_bytes"] = rows_array(comparison.traffic);
  root["fields"] = Json::array();
  for (const FieldChange& change : comparison.fields) {
    root["fields"].push_back({{"path", change.path}, {"a", change.a}, {"b", change.b}});
  }
  root["assumptions"] = {{"only_in_a", comparison.only_in_a}, {"only_in_b", comparison.only_in_b}};
  root["metrics"] = Json::array();
  for (const MetricPair& pair : comparison.metrics) {
    root["metrics"].push_back({{"name", pair.name}, {"a", pair.a}, {"b", pair.b}});
  }
  root["outcomes"] = outcomes_array(comparison.outcomes);
  root["verdict"] = name_of(comparison.verdict);
  root["sentence"] = sentence_of(comparison);
  return root.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
