#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// MFU was above HFU, and could exceed 100 %. A perceptron counted the gradient of its data, which
// nobody computes. A token counted with experts that had dropped it. (tests/app/verify_test.cpp
// holds both against each other in every verify scenario.)
namespace shardsim::test {

namespace {

// One rank, one step of one microbatch.
const std::string kOneRank = R"("system": { "nodes": 1, "gpus_per_node": 1,
    "intra_node": { "bandwidth_gb_per_s": 100, "latency_us": 2 },
    "inter_node": { "bandwidth_gb_per_s": 10, "latency_us": 5 },
    "device": { "name": "a device", "memory_gib": 1, "memory_bandwidth_gb_per_s": 1000,
      "memory_efficiency": 0.8, "peak_tflops": { "fp32": 20 }, "matmul_efficiency": 0.7,
      "kernel_launch_us": 2 } },
  "training": { "global_batch_size": 2, "micro_batch_size": 2, "precision": "fp32" })";

Result run_of(const std::string& model) {
  const std::string text = R"({ "schema_version": 1, "model": { )" + model + " }, " + kOneRank;
  return run_scenario(load_scenario_text(text + " }", "flops.json")).result;
}

// The model's flops in a step.
double model_flops(const Result& result) {
  return *result.number("model_tflops_per_gpu") * 1e12 * *result.number("step_time_s");
}

// The few products and quotients in between round once each.
constexpr double kRoundings = 1e-14;

}  // namespace

TEST_CASE("a perceptron's model flops are those that its products execute") {
  // Forward 2 (8 x 16 + 16 x 16 + 16 x 4), weights' gradients as many, inputs' all but the first.
  const Result result = run_of(
      R"("family": "mlp", "num_layers": 2, "hidden_size": 8, "ffn_hidden_size": 16,
         "vocab_size": 4)");
  constexpr double kFlops = 2.0 * (3 * 2 * (128 + 256 + 64) - 2 * 128);
  CHECK(model_flops(result) == Approx(kFlops).epsilon(kRoundings));
  CHECK(*result.number("mfu") == *result.number("hfu"));
}

TEST_CASE("a token that a capacity drops is no work of the model") {
  // 16 tokens for 4 experts that take ceil(16 / 4 / 2) = 2 each: 8 of 16 are dropped.
  const std::string model =
      R"("family": "llama", "num_layers": 1, "hidden_size": 8, "ffn_hidden_size": 16,
         "num_attention_heads": 1, "vocab_size": 8, "seq_len": 8, "num_experts": 4,
         "num_experts_per_token": 1, "moe_ffn_hidden_size": 16, "moe_routing": "uniform")";
  constexpr double kDense = 4 * 8 * 8 + 8 * 4 + 8 * 8;  // Attention's projections, router, head.
  constexpr double kExpert = 3 * 8 * 16;
  constexpr double kScores = 2 * 6 * 8 * 8 * 8;  // Two sequences.
  constexpr double kScoresAgain = 2 * 2 * 8 * 8 * 8 / 2;
  const Result dropping = run_of(model + R"(, "moe_capacity_factor": 0.5)");
  constexpr double kKept = 6 * (16 * kDense + 8 * kExpert) + kScores;
  CHECK(*dropping.number("moe.dropped_tokens") == 8.0);
  CHECK(model_flops(dropping) == Approx(kKept).epsilon(kRoundings));
  CHECK(*dropping.number("hfu") / *dropping.number("mfu") ==
        Approx((kKept + kScoresAgain) / kKept).epsilon(kRoundings));
  // If all tokens fit, all count. Empty places are computed, but are no work of the model.
  constexpr double kAll = 6 * (16 * kDense + 16 * kExpert) + kScores;
  for (const auto& [factor, rows] : {std::pair{"1", 16.0}, {"2", 32.0}}) {
    const Result result = run_of(model + R"(, "moe_capacity_factor": )" + factor);
    const double executed = 6 * (16 * kDense + rows * kExpert) + kScores + kScoresAgain;
    CHECK(model_flops(result) == Approx(kAll).epsilon(kRoundings));
    CHECK(*result.number("hfu") / *result.number("mfu") ==
          Approx(executed / kAll).epsilon(kRoundings));
  }
}

}  // namespace shardsim::test
