#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// The gradient of a norm's bias is a sum over tokens. Two ranks have half of the tokens each, and
// their halves nearly cancel, so that rounding each to fp16 may cost seven times as much as the sum
// shows. The oracle knew only the sum.
namespace shardsim::test {

namespace {

constexpr const char* kScenario = R"({
  "schema_version": 1, "name": "halves that cancel",
  "model": { "family": "gpt2", "num_layers": 2, "hidden_size": 8, "ffn_hidden_size": 1,
             "num_attention_heads": 2, "vocab_size": 23, "seq_len": 8 },
  "system": {
    "nodes": 1, "gpus_per_node": 4,
    "intra_node": { "bandwidth_gb_per_s": 100, "latency_us": 2 },
    "inter_node": { "bandwidth_gb_per_s": 100, "latency_us": 2 },
    "device": { "memory_gib": 1, "memory_bandwidth_gb_per_s": 1000, "memory_efficiency": 0.8,
                "peak_tflops": { "fp64": 10, "fp32": 10, "bf16": 10, "fp16": 10 },
                "matmul_efficiency": 0.7, "kernel_launch_us": 2 }
  },
  "parallelism": { "cp": 2, "cp_attention": "ulysses", "dp_replicate": 2, "dp_shard": 1,
                   "zero_stage": 3 },
  "training": { "global_batch_size": 2, "micro_batch_size": 1, "precision": "bf16",
                "grad_reduce_dtype": "fp16", "loss_scaling": "dynamic", "loss_scale": 1024,
                "optimizer": "rmsprop", "recompute": "selective" },
  "execution": { "tensors": "real", "steps": 3, "seed": 517675 }
})";

}  // namespace

TEST_CASE("halves of a norm's gradient that cancel are right in fp16") {
  const Result result = run_scenario(load_scenario_text(kScenario, "halves")).result;
  INFO(result.checks.back().detail);
  CHECK(result.exit_code == 0);
}

}  // namespace shardsim::test
