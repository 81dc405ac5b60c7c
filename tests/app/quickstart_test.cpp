#include <cstdint>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"

// README's main job, held to closed formulas from the fields of its own result.
namespace shardsim::test {
namespace {

using nlohmann::json;

/// Parameters of the units of a Llama: the embedding; a layer of attention with grouped queries,
/// SwiGLU and two norms; the last norm with a head of its own. (Touvron et al. 2023; Llama 3,
/// 2024.)
struct Units {
  std::int64_t embedding = 0;
  std::int64_t layer = 0;
  std::int64_t head = 0;
};

Units llama_units(const json& model) {
  const std::int64_t hidden = model["hidden_size"];
  const std::int64_t heads = model["num_attention_heads"];
  const std::int64_t groups = model["num_query_groups"];
  const std::int64_t key_value = hidden / heads * groups;
  const std::int64_t attention = 2 * hidden * hidden + 2 * hidden * key_value;
  const std::int64_t feed_forward = 3 * hidden * model["ffn_hidden_size"].get<std::int64_t>();
  const std::int64_t vocab = model["vocab_size"];
  return {.embedding = vocab * hidden,
          .layer = attention + feed_forward + 2 * hidden,
          .head = vocab * hidden + hidden};
}

std::int64_t llama_parameters(const json& model) {
  const Units units = llama_units(model);
  return units.embedding + model["num_layers"].get<std::int64_t>() * units.layer + units.head;
}

json quickstart(const std::string& software = "torchtitan-2025") {
  const Printed printed =
      shardsim({"scenarios/quickstart.json", "--json", "--set", "system.software=" + software});
  REQUIRE(printed.exit_code == 0);
  REQUIRE(printed.err.empty());
  return json::parse(printed.out);
}

constexpr std::int64_t kBf16 = 2;

}  // namespace

TEST_CASE("quickstart says what its traffic depends on") {
  const json training = quickstart()["scenario"]["training"];
  CHECK(training["global_batch_size"] == 128);
  CHECK(training["num_microbatches"] == 2);
  CHECK(training["grad_reduce_dtype"] == "bf16");
  CHECK(training["precision"] == "bf16");
}

TEST_CASE("quickstart sends exactly the bytes of the formula") {
  const json result = quickstart();
  const json& scenario = result["scenario"];
  const json& metrics = result["metrics"];
  const std::int64_t parameters = llama_parameters(scenario["model"]);
  CHECK(parameters == 8030261248);
  const std::int64_t n = metrics["ranks"];
  const std::int64_t microbatches = scenario["training"]["num_microbatches"];
  // Per microbatch all weights are gathered twice and all gradients reduce_scattered once, each of
  // which sends (N-1)/N of them.
  const std::int64_t weights = 2 * microbatches * parameters * kBf16 / n * (n - 1);
  const std::int64_t gradients = microbatches * parameters * kBf16 / n * (n - 1);
  CHECK(parameters % n == 0);
  CHECK(metrics["comm.bytes_sent.padding"] == 0);
  CHECK(metrics["comm.bytes_sent.max_rank"] == weights + gradients);
  CHECK(metrics["comm.bytes_sent.total"] == n * (weights + gradients));
  CHECK(metrics["comm.bytes_sent.by_axis.dp"] == n * (weights + gradients));
  // Units: embedding, layers, head; 2 gathers and 1 reduction of each, posted by every rank.
  const std::int64_t units = scenario["model"]["num_layers"].get<std::int64_t>() + 2;
  CHECK(metrics["comm.calls.total"] == n * 3 * microbatches * units);
}

// The peak is the head's backward in the second microbatch, where the activations of all layers and
// the logits are there.
TEST_CASE("quickstart stores exactly the shards of the formula, and its live units") {
  const json result = quickstart("none");  // A framework's own tensors move the peaks.
  const json& metrics = result["metrics"];
  const json& scenario = result["scenario"];
  REQUIRE(scenario["parallelism"]["prefetch_units"] == 1);
  REQUIRE(scenario["parallelism"]["reductions_in_flight"] == 1);
  const Units units = llama_units(scenario["model"]);
  const std::int64_t shard = llama_parameters(scenario["model"]) / 64;
  CHECK(metrics["memory.optimizer_bytes.max"] == shard * (4 + 4 + 4));  // Master, two moments.
  // Weights of the head, and of the last layer, which is next.
  CHECK(metrics["memory.params_bytes.max"] == (shard + units.head + units.layer) * kBf16);
  // Gradients of the head, and of the embedding: what was reduced last, in the microbatch before.
  CHECK(metrics["memory.grads_bytes.max"] == (shard + units.head + units.embedding) * kBf16);
}

TEST_CASE("quickstart's result has every metric that concerns it") {
  const json metrics = quickstart()["metrics"];
  for (const char* name : {"step_time_s",
                           "tokens_per_s",
                           "tokens_per_s_per_gpu",
                           "model_tflops_per_gpu",
                           "mfu",
                           "hfu",
                           "time.compute_s",
                           "time.exposed_comm_s",
                           "time.bubble_s",
                           "time.hidden_comm_s",
                           "memory.peak_bytes.max",
                           "memory.params_bytes.max",
                           "memory.grads_bytes.max",
                           "memory.optimizer_bytes.max",
                           "memory.activations_bytes.max",
                           "memory.comm_bytes.max",
                           "comm.bytes_sent.total",
                           "comm.bytes_sent.max_rank",
                           "comm.bytes_sent.by_axis.dp",
                           "comm.bytes_sent.by_axis.tp",
                           "comm.bytes_sent.by_axis.cp",
                           "comm.bytes_sent.by_axis.ep",
                           "comm.bytes_sent.by_axis.pp",
                           "comm.calls.total",
                           "ranks",
                           "trace_hash"}) {
    INFO(name);
    CHECK(metrics.contains(name));
  }
  CHECK_FALSE(metrics.contains("oracle.passed"));
  CHECK(metrics["mfu"] > 0.3);
  CHECK(metrics["mfu"] < 1.0);
  CHECK(metrics["tokens_per_s"].get<double>() ==
        Approx(128 * 8192 / metrics["step_time_s"].get<double>()));
}

}  // namespace shardsim::test
