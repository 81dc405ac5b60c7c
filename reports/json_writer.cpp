#include "reports/json_writer.hpp"

#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "reports/csv_tables.hpp"
#include "reports/diagnosis_json.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

template <class Items, class Convert>
Json array_of(const Items& items, Convert convert) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(convert(item));
  return array;
}

Json side_object(const DiagnosisSide& side) {
  return Json{{"ranks", side.ranks},
              {"action", side.action},
              {"file", side.site.file},
              {"line", side.site.line},
              {"function", side.site.function}};
}

Json diagnosis_object(const Diagnosis& diagnosis) {
  Json object{{"code", diagnosis.code},
              {"summary", diagnosis.summary},
              {"group", diagnosis.group},
              {"members", diagnosis.members},
              {"sequence", diagnosis.sequence},
              {"time_ps", diagnosis.time.picoseconds()},
              {"sides", array_of(diagnosis.sides, side_object)},
              {"cycle", diagnosis.cycle},
              {"last_matched", diagnosis.last_matched},
              {"hint", diagnosis.hint}};
  if (!diagnosis.right.empty()) object["right"] = diagnosis.right;
  if (!diagnosis.compared_with.empty()) object["compared_with"] = diagnosis.compared_with;
  if (!diagnosis.schedule.empty()) object["schedule"] = diagnosis.schedule;
  if (!diagnosis.replay.empty()) object["replay"] = diagnosis.replay;
  return object;
}

Json scenario_object(const std::string& text) {
  Json scenario = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!scenario.is_object()) {
    throw Error(ExitCode::internal, "RESULT_SCENARIO",
                "the resolved scenario of the result is not a JSON object");
  }
  return scenario;
}

// The first of equal names counts.
Json metrics_object(const std::vector<Metric>& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) {
    object.emplace(name, std::visit([](const auto& v) { return Json(v); }, value));
  }
  return object;
}

Json band_object(const MetricBand& band) {
  return Json{{"metric", band.metric},
              {"low", band.low},
              {"centre", band.centre},
              {"high", band.high},
              {"bias", band.bias},
              {"runs", band.runs},
              {"tables", band.tables},
              {"group", band.group},
              {"too_few", band.too_few},
              {"device", band.device},
              {"runs_on_device", band.runs_on_device},
              {"software", band.software},
              {"runs_with_software", band.runs_with_software},
              {"least_ranks", band.least_ranks},
              {"most_ranks", band.most_ranks},
              {"held_out_share", band.held_out_share}};
}

Json check_object(const Check& check) {
  return Json{{"name", check.name}, {"passed", check.passed}, {"detail", check.detail}};
}

Json expectation_object(const ExpectationResult& row) {
  return Json{{"metric", row.metric},
              {"op", row.op},
              {"expected", row.expected},
              {"actual", row.actual},
              {"passed", row.passed}};
}

Json assumption_object(const Assumption& assumption) {
  return Json{{"text", assumption.text}, {"source", assumption.source}};
}

}  // namespace

std::string to_json(const Diagnosis& diagnosis) { return dumped(diagnosis_object(diagnosis)); }

std::string to_json(const Result& result) {
  Json root;
  root["schema_version"] = Result::kSchemaVersion;
  root["scenario"] = scenario_object(result.scenario_json);
  root["metrics"] = metrics_object(ordered_metrics(result));
  if (!result.measured.empty()) root["measured"] = metrics_object(result.measured);
  if (!result.error_bands.empty()) {
    root["error_bands"] = array_of(result.error_bands, band_object);
  }
  if (!result.no_error_band.empty()) root["no_error_band"] = result.no_error_band;
  root["checks"] = array_of(result.checks, check_object);
  root["expectations"] = array_of(result.expectations, expectation_object);
  root["assumptions"] = array_of(result.assumptions, assumption_object);
  root["warnings"] = result.warnings;
  if (result.diagnosis) root["diagnosis"] = diagnosis_object(*result.diagnosis);
  return dumped(root);
}

}  // namespace shardsim
