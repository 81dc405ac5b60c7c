#include <nlohmann/json.hpp>

#include "sim/kernel/metric_table.hpp"

#include "sim/search/search_report.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

Json layout_json(const Candidate& candidate) {
  return {{"tp", candidate.tp},
          {"pp", candidate.pp},
          {"cp", candidate.cp},
          {"ep", candidate.ep},
          {"vpp", candidate.vpp},
          {"dp_replicate", candidate.dp_replicate},
          {"dp_shard", candidate.dp_shard},
          {"zero_stage", candidate.zero_stage},
          {"sequence_parallel", candidate.sequence_parallel},
          {"schedule", candidate.schedule},
          {"micro_batch_size", candidate.micro_batch_size},
          {"num_microbatches", candidate.num_microbatches},
          {"recompute", to_string(candidate.recompute)}};
}

// Metrics under the names that a result has.
Json point_json(const SearchReport& report, const SimulatedPoint& point) {
  Json metrics = {{metric::kStepTimeS.name, point.step_time_s},
                  {metric::kTokensPerS.name, point.tokens_per_s},
                  {metric::kTokensPerSPerGpu.name, point.tokens_per_s_per_gpu},
                  {metric::kMfu.name, point.mfu},
                  {metric::kTimeComputeS.name, point.compute_s},
                  {metric::kTimeExposedCommS.name, point.exposed_comm_s},
                  {metric::kTimeHiddenCommS.name, point.hidden_comm_s},
                  {metric::kTimeBubbleS.name, point.bubble_s},
                  {metric::kTimeHostS.name, point.host_s},
                  {metric::kMemoryPeakBytesMax.name, point.peak_bytes},
                  {metric::kMemoryDeviceBytesMax.name, point.device_bytes}};
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    metrics[kMemoryMetrics.at(i)->name] = point.category_bytes.at(i);
  }
  Json json = {{"layout", report.layout_of(point)},
               {"fields", layout_json(point.candidate)},
               {"metrics", std::move(metrics)}};
  if (report.usd_per_gpu_hour > 0) json["usd_per_1t_tokens"] = report.usd_per_1t_tokens(point);
  json["leaves_margin"] = !point.is_tight;
  return json;
}

Json points_json(const SearchReport& report, const std::vector<SimulatedPoint>& points) {
  Json list = Json::array();
  for (const SimulatedPoint& point : points) list.push_back(point_json(report, point));
  return list;
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
               {"objective", report.objective == Objective::time     ? "time"
                             : report.objective == Objective::memory ? "memory"
                                                                     : "cost"},
               {"memory_capacity_bytes", report.memory_capacity_bytes},
               {"memory_margin", report.memory_margin}};
  if (report.usd_per_gpu_hour > 0) json["usd_per_gpu_hour"] = report.usd_per_gpu_hour;
  json["interrupted"] = report.is_interrupted;
  json["counts"] = {
      {"candidates", report.num_candidates}, {"simulated", report.num_simulated},
      {"pruned_worse", report.num_slower},   {"pruned_too_large", report.num_too_large},
      {"refused", report.num_refused},       {"failed", report.num_failed},
      {"not_looked_at", report.num_unseen},  {"simulated_did_not_fit", report.num_did_not_fit}};
  if (report.num_failed > 0) {
    json["first_failed"] = {{"layout", report.first_failed}, {"reason", report.first_failure}};
  }
  if (!report.least_that_did_not_fit.empty()) {
    json["least_that_did_not_fit"] = {{"layout", report.least_that_did_not_fit},
                                      {"bytes", report.least_bytes_not_fitting},
                                      {"is_lower_bound", !report.least_is_simulated}};
  }
  json["ranked"] = points_json(report, report.ranked);
  json["front_within"] = report.front_within;
  json["pareto_front"] = points_json(report, report.front);
  json["why_runner_up"] = report.why_runner_up;
  json["assumptions"] = report.assumptions;
  json["ignored"] = report.ignored;
  json["sources"] = report.sources;
  return json.dump(2) + "\n";
}

}  // namespace shardsim
