#include "reports/result.hpp"

#include <algorithm>

namespace shardsim {

const MetricValue* Result::find(const std::string& name) const {
  const auto metric = std::find_if(metrics.begin(), metrics.end(),
                                   [&name](const Metric& m) { return m.name == name; });
  return metric == metrics.end() ? nullptr : &metric->value;
}

std::optional<double> Result::number(const std::string& name) const {
  const MetricValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* flag = std::get_if<bool>(value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> kNames = {
      "step_time_s",
      "tokens_per_s",
      "tokens_per_s_per_gpu",
      "model_tflops_per_gpu",
      "mfu",
      "hfu",
      "time.compute_s",
      "time.exposed_comm_s",
      "time.bubble_s",
      "time.host_s",
      "time.hidden_comm_s",
      "time.pipeline_idle_s.max",
      "time.pipeline_idle_in_span_s.max",
      "memory.peak_bytes.max",
      "memory.params_bytes.max",
      "memory.grads_bytes.max",
      "memory.optimizer_bytes.max",
      "memory.activations_bytes.max",
      "memory.comm_bytes.max",
      "memory.host_bytes.max",
      "memory.allocated_peak_bytes.max",
      "memory.allocated_peak_bytes.last_stage",
      "memory.reserved_peak_bytes.max",
      "memory.device_bytes.max",
      "memory.allocator_retries.max",
      "memory.peak_allocation",
      "comm.bytes_sent.total",
      "comm.bytes_sent.max_rank",
      "comm.bytes_sent.by_axis.dp",
      "comm.bytes_sent.by_axis.tp",
      "comm.bytes_sent.by_axis.cp",
      "comm.bytes_sent.by_axis.ep",
      "comm.bytes_sent.by_axis.pp",
      "comm.calls.total",
      "moe.load_imbalance",
      "moe.dropped_tokens",
      "loss_scaling.skipped_steps",
      "loss_scaling.scale",
      "goodput.fraction",
      "goodput.fraction_low",
      "goodput.fraction_high",
      "goodput.effective_tokens_per_s",
      "goodput.mtbf_s",
      "goodput.checkpoint_interval_s",
      "goodput.checkpoint_write_s",
      "goodput.young_s",
      "goodput.daly_s",
      "goodput.best_s",
      "goodput.lost_share.checkpoint",
      "goodput.lost_share.rework",
      "goodput.lost_share.restart",
      "cost.days",
      "cost.gpu_hours",
      "cost.usd",
      "ranks",
      "trace_hash",
      "oracle.max_rel_error.grads",
      "oracle.max_rel_error.params",
      "oracle.max_rel_error.optimizer_state",
      "oracle.max_rel_error.loss",
      "oracle.passed",
  };
  return kNames;
}

}  // namespace shardsim
