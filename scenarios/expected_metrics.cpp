#include "scenarios/expected_metrics.hpp"

namespace shardsim {

const std::vector<std::string>& metrics_to_expect() {
  // trace_hash and memory.peak_allocation are left out: they are texts, and "expect" compares
  // numbers.
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
      "oracle.max_rel_error.grads",
      "oracle.max_rel_error.params",
      "oracle.max_rel_error.optimizer_state",
      "oracle.max_rel_error.loss",
      "oracle.passed",
  };
  return kNames;
}

bool is_oracle_metric(const std::string& name) { return name.rfind("oracle.", 0) == 0; }

}  // namespace shardsim
