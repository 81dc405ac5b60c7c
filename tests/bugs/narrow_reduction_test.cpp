#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/wrong_numbers.hpp"

// The oracle once failed correct strategies that reduce gradients in a narrower type than the
// weights'. It compared updates that differ in the sixteenth digit with a noise of zero.
namespace shardsim::test {

namespace {

Scenario narrow(const std::string& name, const char* reduced, const char* optimizer) {
  return load_scenario("scenarios/" + name + ".json",
                       {std::string("training.grad_reduce_dtype=") + reduced,
                        std::string("training.optimizer=") + optimizer, "training.epsilon=1e-8",
                        "execution.steps=2"});
}

}  // namespace

TEST_CASE("strategies in fp64 that reduce in a narrower type are right") {
  for (const char* name : {"verify-gpt-tp4", "verify-gpt-hsdp", "verify-llama-cp2-fsdp4"}) {
    for (const char* reduced : {"fp32", "bf16"}) {
      for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop"}) {
        const Result result = run_scenario(narrow(name, reduced, optimizer)).result;
        INFO(name << " " << reduced << " " << optimizer << ": " << result.checks.back().detail);
        CHECK(result.exit_code == 0);
      }
    }
  }
}

// So few samples and so narrow a model that gradients are subnormal numbers of fp16.
TEST_CASE("gradients below the normal numbers of the type that adds them are right") {
  const std::string text = R"({
    "schema_version": 1, "name": "subnormal",
    "model": { "family": "llama", "num_layers": 6, "hidden_size": 2, "ffn_hidden_size": 1,
      "num_attention_heads": 1, "vocab_size": 8, "seq_len": 2, "num_experts": 2,
      "num_experts_per_token": 2, "moe_ffn_hidden_size": 2, "moe_routing": "learned",
      "moe_aux_loss_coeff": 0.1 },
    "system": { "nodes": 1, "gpus_per_node": 6,
      "device": { "memory_gib": 1, "memory_bandwidth_gb_per_s": 1000, "memory_efficiency": 0.8,
        "matmul_efficiency": 0.7, "kernel_launch_us": 2,
        "peak_tflops": { "fp64": 10, "fp32": 10, "fp16": 10 } },
      "intra_node": { "bandwidth_gb_per_s": 100, "latency_us": 2 },
      "inter_node": { "bandwidth_gb_per_s": 100, "latency_us": 2 } },
    "parallelism": { "dp_shard": 2, "pp": 3, "schedule": "v_min", "zero_stage": 2 },
    "training": { "global_batch_size": 18, "micro_batch_size": 1, "precision": "fp64",
      "grad_reduce_dtype": "fp16", "loss_scaling": "dynamic", "loss_scale": 64, "optimizer": "sgd" },
    "execution": { "tensors": "real", "steps": 2 } })";
  for (int seed = 1; seed <= 10; ++seed) {
    const Result result =
        run_scenario(
            load_scenario_text(text, "subnormal.json", {"execution.seed=" + std::to_string(seed)}))
            .result;
    INFO(seed << ": " << result.checks.back().detail);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("a lost contribution is found in them, and a mean that is taken twice") {
  const Scenario scenario = narrow("verify-gpt-hsdp", "bf16", "adamw");
  CHECK(run_scenario(scenario, {.wrap_world = plant(lost_contribution())}).result.exit_code == 1);
  CHECK(run_scenario(scenario, {.wrap_world = plant(double_averaging())}).result.exit_code == 1);
}

}  // namespace shardsim::test
