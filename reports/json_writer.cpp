#include "reports/json_writer.hpp"

#include <algorithm>
#include <variant>

#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "reports/diagnosis_json.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

Json scenario_object(const std::string& text) {
  Json scenario = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!scenario.is_object()) {
    throw Error(ExitCode::internal, "RESULT_SCENARIO",
                "the resolved scenario of the result is not a JSON object");
  }
  return scenario;
}

Json metrics_object(const Result& result) {
  Json object = Json::object();
  const auto set = [&object](const std::string& name, const MetricValue& value) {
    object[name] = std::visit([](const auto& v) { return Json(v); }, value);
  };
  for (const std::string& name : metric_names()) {
    if (const MetricValue* value = result.find(name)) set(name, *value);
  }
  for (const Metric& metric : result.metrics) {
    if (!object.contains(metric.name)) set(metric.name, metric.value);
  }
  return object;
}

Json measured_object(const Result& result) {
  Json object = Json::object();
  for (const Metric& metric : result.measured) {
    object[metric.name] = std::visit([](const auto& v) { return Json(v); }, metric.value);
  }
  return object;
}

template <class Items, class Convert>
Json array_of(const Items& items, Convert convert) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(convert(item));
  return array;
}

Json band_object(const MetricBand& band) {
  return Json{{"metric", band.metric},
              {"low", band.low},
              {"high", band.high},
              {"runs", band.runs},
              {"tables", band.tables},
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

std::string to_json(const Result& result) {
  Json root;
  root["schema_version"] = Result::kSchemaVersion;
  root["scenario"] = scenario_object(result.scenario_json);
  root["metrics"] = metrics_object(result);
  if (!result.measured.empty()) root["measured"] = measured_object(result);
  if (!result.error_bands.empty()) {
    root["error_bands"] = array_of(result.error_bands, band_object);
  }
  if (!result.no_error_band.empty()) root["no_error_band"] = result.no_error_band;
  root["checks"] = array_of(result.checks, check_object);
  root["expectations"] = array_of(result.expectations, expectation_object);
  root["assumptions"] = array_of(result.assumptions, assumption_object);
  root["warnings"] = result.warnings;
  if (result.diagnosis) root["diagnosis"] = Json::parse(to_json(*result.diagnosis));
  return root.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
