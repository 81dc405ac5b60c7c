#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/metric_table.hpp"

#include "reports/csv_tables.hpp"
#include "sim/search/layout_json.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

// By Objective.
constexpr std::array kObjectives = {"time", "memory", "cost"};

Json point_json(const SearchReport& report, const SimulatedPoint& point) {
  Json json;
  add_point(json, point);
  if (report.usd_per_gpu_hour > 0) json["usd_per_1t_tokens"] = report.usd_per_1t_tokens(point);
  json["leaves_margin"] = !point.is_tight;
  return json;
}

Json points_json(const SearchReport& report, const std::vector<SimulatedPoint>& points) {
  Json list = Json::array();
  for (const SimulatedPoint& point : points) list.push_back(point_json(report, point));
  return list;
}

Json given_json(const SearchReport& report) {
  const GivenOutcome& given = *report.given;
  Json json;
  if (given.point) {
    json = point_json(report, *given.point);
    json["fits"] = given.point->fits;
    add_bands(json, report.given_measured);
    if (report.given_training) add_training(json, *report.given_training);
    json["rank_from"] = given.num_ahead + 1;
    json["rank_to"] = given.num_ahead + 1 + given.num_undecided;
  } else {
    add_layout(json, given.candidate);
    json["failure"] = given.failure;
  }
  json["searched"] = given.why_not_searched.empty();
  json["words"] = given_words(report);
  return json;
}

// Under the name of the metric that the search minimizes.
Json bound_json(const SearchReport& report) {
  if (!report.lower_bound) return {};
  const MetricRow& row =
      report.objective == Objective::memory ? metric::kMemoryDeviceBytesMax : metric::kStepTimeS;
  return {{row.name, *report.lower_bound}};
}

}  // namespace

std::string to_json(const SearchReport& report) {
  Json json = {{"schema_version", 1},
               {"model", report.model},
               {"system", report.system},
               {"gpus", report.num_gpus},
               {"seq_len", report.seq_len},
               {"global_batch_size", report.global_batch_size},
               {"precision", report.precision},
               {"objective", kObjectives.at(static_cast<std::size_t>(report.objective))},
               {"memory_capacity_bytes", report.memory_capacity_bytes},
               {"memory_margin", report.memory_margin}};
  if (report.recipe != "none") json["fp8_recipe"] = report.recipe;
  if (report.tokens > 0) json["tokens"] = report.tokens;
  if (report.usd_per_gpu_hour > 0) json["usd_per_gpu_hour"] = report.usd_per_gpu_hour;
  json["complete"] = report.stop == SearchStop::none;
  json["interrupted"] = report.stop == SearchStop::interrupt;
  json["lower_bound"] = bound_json(report);
  json["gap"] = report.gap ? Json(*report.gap) : Json();
  json["counts"] = {{"candidates", report.num_candidates},
                    {"simulated", report.num_simulated},
                    {"pruned_worse", report.num_slower},
                    {"pruned_too_large", report.num_too_large},
                    {"refused", report.num_refused},
                    {"failed", report.num_failed},
                    {"not_simulated", report.num_candidates - report.num_simulated},
                    {"left_open", report.num_open},
                    {"simulated_did_not_fit", report.num_did_not_fit}};
  if (report.num_failed > 0) {
    json["first_failed"] = {{"layout", report.first_failed}, {"reason", report.first_failure}};
  }
  if (!report.least_that_did_not_fit.empty()) {
    json["least_that_did_not_fit"] = {{"layout", report.least_that_did_not_fit},
                                      {"bytes", report.least_bytes_not_fitting},
                                      {"is_lower_bound", !report.least_is_simulated}};
  }
  json["ranked"] = points_json(report, report.ranked);
  for (std::size_t i = 0; i < report.measured.size(); ++i) {
    add_bands(json["ranked"][i], report.measured.at(i));
    if (!report.training.empty()) add_training(json["ranked"][i], report.training.at(i));
  }
  json["front_within"] = report.front_within;
  json["pareto_front"] = points_json(report, report.front);
  json["why_runner_up"] = report.why_runner_up;
  if (report.given) json["given"] = given_json(report);
  json["mfu_counts"] = report.mfu_counts;
  if (!report.not_modelled.empty()) json["not_modelled"] = report.not_modelled;
  json["assumptions"] = report.assumptions;
  json["ignored"] = report.ignored;
  if (!report.warnings.empty()) json["warnings"] = report.warnings;
  json["sources"] = report.sources;
  return json.dump(2) + "\n";
}

// Every simulated layout that fits, best first.
std::string to_csv(const SearchReport& report) {
  std::string text = "rank,on_front,layout,";
  for_each_field(Candidate{},
                 [&](const char* name, const auto&) { text += name + std::string(","); });
  text +=
      "step_time_s,tokens_per_s_per_gpu,mfu,compute_s,exposed_comm_s,bubble_s,host_s,peak_bytes,"
      "device_bytes,usd_per_1t_tokens\n";
  std::size_t rank = 0;
  for (const SimulatedPoint& point : report.others) {
    const bool on_front =
        std::ranges::find(report.front, point.index, &SimulatedPoint::index) != report.front.end();
    const std::string cost = report.usd_per_gpu_hour > 0
                                 ? fmt::format("{}", report.usd_per_1t_tokens(point))
                                 : std::string();
    text += fmt::format("{},{},{},", ++rank, on_front, csv_cell(words_of(point.candidate)));
    for_each_field(point.candidate, [&](const char*, const auto& value) {
      text += csv_cell(fmt::format("{}", value)) + ",";
    });
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{}\n", point.step_time_s,
                    point.tokens_per_s_per_gpu, point.mfu, point.compute_s, point.exposed_comm_s,
                    point.bubble_s, point.host_s, point.peak_bytes, point.device_bytes, cost);
  }
  return text;
}

}  // namespace shardsim
