#include "tests/app/folding_fixture.hpp"

#include <cstdio>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

namespace shardsim::test {

std::string small_plan(const std::string& family) {
  return R"({
  "schema_version": 1, "name": "to be folded",
  "model": {
    "family": ")" +
         family + R"(", "num_layers": 8, "hidden_size": 48, "ffn_hidden_size": 40,
    "num_attention_heads": 8, "vocab_size": 53, "seq_len": 16
  },
  "system": {
    "nodes": 2, "gpus_per_node": 8,
    "intra_node": { "bandwidth_gb_per_s": 100, "latency_us": 3 },
    "inter_node": { "bandwidth_gb_per_s": 10, "latency_us": 7 },
    "device": {
      "memory_gib": 80, "memory_bandwidth_gb_per_s": 1000, "memory_efficiency": 0.8,
      "peak_tflops": { "fp32": 10 }, "matmul_efficiency": 0.5, "kernel_launch_us": 10
    }
  },
  "parallelism": { "zero_stage": 0, "bucket_bytes": 4000, "first_bucket_bytes": 1000 },
  "training": {
    "global_batch_size": 64, "micro_batch_size": 1, "precision": "fp32", "optimizer": "adam",
    "max_grad_norm": 1
  },
  "execution": { "tensors": "meta", "steps": 2 }
})";
}

Result planned(const std::string& text, std::vector<std::string> overrides,
               const std::string& fold) {
  overrides.push_back("execution.fold=" + fold);
  return run_scenario(load_scenario_text(text, "test.json", overrides)).result;
}

std::string difference(const Result& folded, const Result& whole) {
  if (folded.exit_code != whole.exit_code) return "exit code";
  if (folded.metrics.size() != whole.metrics.size()) return "number of metrics";
  for (std::size_t i = 0; i < whole.metrics.size(); ++i) {
    const Metric& metric = whole.metrics[i];
    if (folded.metrics[i].name != metric.name) return metric.name;
    if (metric.name == "trace_hash" || folded.metrics[i].value == metric.value) continue;
    return metric.name + ": " + std::to_string(folded.number(metric.name).value_or(-1)) +
           " instead of " + std::to_string(whole.number(metric.name).value_or(-1));
  }
  if (folded.checks.size() != whole.checks.size()) return "number of checks";
  for (std::size_t i = 0; i < whole.checks.size(); ++i) {
    if (folded.checks[i].detail != whole.checks[i].detail) {
      return folded.checks[i].detail + " instead of " + whole.checks[i].detail;
    }
  }
  return {};
}

int num_run(const Result& result) {
  for (const Assumption& assumption : result.assumptions) {
    int run = 0;
    int all = 0;
    if (std::sscanf(assumption.text.c_str(), "%d of %d ranks were run", &run, &all) == 2) {
      return run;
    }
  }
  return static_cast<int>(*result.number("ranks"));
}

}  // namespace shardsim::test
