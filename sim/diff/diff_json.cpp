#include <array>

#include <nlohmann/json.hpp>

#include "sim/diff/comparison.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

// By SideKind.
constexpr std::array kKindNames = {"simulated", "measured", "megatron_log", "profiler_trace"};
// By BandVerdict.
constexpr std::array kVerdictNames = {"no_band", "distinguishable", "within_band", "unlike"};

Json band_object(const RunSide& side, const MetricBand& band) {
  const std::optional<double> simulated = side.metric(band.metric);
  return {{"metric", band.metric},
          {"low", band.low},
          {"centre", band.centre},
          {"high", band.high},
          {"by_the_model", simulated ? Json(*simulated) : Json(nullptr)},
          {"bias", band.bias},
          {"group", band.group},
          {"held_out_share", band.held_out_share}};
}

Json side_object(const RunSide& side) {
  Json object = {{"file", side.file},
                 {"kind", kKindNames.at(static_cast<std::size_t>(side.kind))},
                 {"what", side.what},
                 {"fits", side.fits ? Json(*side.fits) : Json(nullptr)}};
  if (side.band) object["step_time_band_s"] = {side.band->low_s, side.band->high_s};
  if (!side.bands.empty()) {
    object["error_bands"] = Json::array();
    for (const MetricBand& band : side.bands)
      object["error_bands"].push_back(band_object(side, band));
  }
  object["notes"] = side.notes;
  return object;
}

Json row_object(const DiffRow& row) {
  return {{"name", row.name}, {"a", row.a}, {"b", row.b}, {"difference", row.difference()}};
}

template <class Items, class Convert>
Json list_of(const std::vector<Items>& items, Convert convert) {
  Json array = Json::array();
  for (const Items& item : items) array.push_back(convert(item));
  return array;
}

Json table_object(const DiffTable& table) {
  return {{"total", row_object(table.total)}, {"parts", list_of(table.rows, row_object)}};
}

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

// Outcomes that a side does not have are null there.
Json outcome_object(const Outcome& outcome) {
  return {
      {"name", outcome.metric}, {"a", number_or_null(outcome.a)}, {"b", number_or_null(outcome.b)}};
}

Json object_of(const RunComparison& comparison) {
  Json root = {{"schema_version", kSchemaVersion},
               {"a", side_object(comparison.a)},
               {"b", side_object(comparison.b)},
               {"time_ps", table_object(comparison.time)}};
  if (comparison.memory) root["memory_bytes"] = table_object(*comparison.memory);
  root["traffic_bytes"] = list_of(comparison.traffic, row_object);
  root["fields"] = list_of(comparison.fields, [](const FieldChange& change) {
    return Json{{"path", change.path}, {"a", change.a}, {"b", change.b}};
  });
  root["assumptions"] = {{"only_in_a", comparison.only_in_a}, {"only_in_b", comparison.only_in_b}};
  root["metrics"] = list_of(comparison.metrics, [](const MetricPair& pair) {
    return Json{{"name", pair.name}, {"a", pair.a}, {"b", pair.b}};
  });
  root["outcomes"] = list_of(comparison.outcomes, outcome_object);
  root["verdict"] = kVerdictNames.at(static_cast<std::size_t>(comparison.verdict));
  root["sentence"] = sentence_of(comparison);
  return root;
}

std::string text_of_json(const Json& root) {
  return root.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string diff_json(const RunComparison& comparison) {
  return text_of_json(object_of(comparison));
}

std::string comparisons_json(const std::vector<RunComparison>& comparisons) {
  Json root = {{"schema_version", kSchemaVersion}, {"comparisons", Json::array()}};
  for (const RunComparison& comparison : comparisons) {
    Json object = {{"letter", comparison.b.letter}};
    object.update(object_of(comparison));
    root["comparisons"].push_back(std::move(object));
  }
  return text_of_json(root);
}

}  // namespace shardsim
