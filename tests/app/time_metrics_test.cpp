#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// Metrics of time, held to what can be computed by hand.
namespace shardsim::test {
namespace {

// A network so fast that only its latency counts, and kernels that cost nothing but their launch of
// 10 us; two ranks, of which each reduction takes 2 x 3 us.
const std::string kLatencyOnly = R"({
  "schema_version": 1, "name": "latencies",
  "model": {
    "family": "mlp", "num_layers": 1, "hidden_size": 4, "ffn_hidden_size": 4, "vocab_size": 4
  },
  "system": {
    "nodes": 1, "gpus_per_node": 2,
    "intra_node": { "bandwidth_gb_per_s": 1e6, "latency_us": 3 },
    "inter_node": { "bandwidth_gb_per_s": 1e6, "latency_us": 3 },
    "device": {
      "memory_gib": 80, "memory_bandwidth_gb_per_s": 1e6, "memory_efficiency": 1,
      "peak_tflops": { "fp64": 1e6 }, "matmul_efficiency": 1, "kernel_launch_us": 10
    }
  },
  "parallelism": { "zero_stage": 0, "bucket_bytes": 160, "first_bucket_bytes": 160 },
  "training": {
    "global_batch_size": 2, "micro_batch_size": 1, "precision": "fp64", "optimizer": "sgd"
  },
  "execution": { "tensors": "meta", "all_reduce_algorithm": "ring" }
})";

const std::string kLlama = R"({
  "schema_version": 1, "name": "a small llama",
  "model": {
    "family": "llama", "num_layers": 4, "hidden_size": 32, "ffn_hidden_size": 48,
    "num_attention_heads": 4, "num_query_groups": 2, "vocab_size": 64, "seq_len": 16
  },
  "system": {
    "nodes": 1, "gpus_per_node": 4,
    "intra_node": { "bandwidth_gb_per_s": 100, "latency_us": 3 },
    "inter_node": { "bandwidth_gb_per_s": 100, "latency_us": 3 },
    "device": {
      "memory_gib": 80, "memory_bandwidth_gb_per_s": 1000, "memory_efficiency": 0.8,
      "peak_tflops": { "fp64": 10 }, "matmul_efficiency": 0.5, "kernel_launch_us": 10
    }
  },
  "training": {
    "global_batch_size": 8, "micro_batch_size": 1, "precision": "fp64", "optimizer": "sgd"
  },
  "execution": { "tensors": "meta", "steps": 2 }
})";

Result result_of(const std::string& text, const std::vector<std::string>& overrides) {
  return run_scenario(load_scenario_text(text, "test.json", overrides)).result;
}

// The times of one step, in microseconds.
struct Split {
  double compute;
  double exposed;
  double bubble;
  double hidden;
};

void check_split(const std::vector<std::string>& overrides, const Split& expected) {
  const Result result = result_of(kLatencyOnly, overrides);
  const auto picoseconds = [&](const char* name) {
    return std::llround(*result.number(name) * 1e12);
  };
  CHECK(picoseconds("time.compute_s") == std::llround(expected.compute * 1e6));
  CHECK(picoseconds("time.exposed_comm_s") == std::llround(expected.exposed * 1e6));
  CHECK(picoseconds("time.bubble_s") == std::llround(expected.bubble * 1e6));
  CHECK(picoseconds("time.hidden_comm_s") == std::llround(expected.hidden * 1e6));
}

// Flops of one sample: products of a matrix with m x k elements take 2 m k per position, forward
// and twice more backward. Scores and their products with values take 2 s^2 h each, and the causal
// mask leaves half; backward has two of each, and the fused kernel computes the scores again.
struct Flops {
  double linear;     // Forward, of one layer.
  double attention;  // Forward, of one layer.
  double head;       // Forward.
};

Flops flops_of(const ModelSpec& model) {
  const auto s = static_cast<double>(model.seq_len);
  const auto h = static_cast<double>(model.hidden_size);
  const auto f = static_cast<double>(model.ffn_hidden_size);
  const auto v = static_cast<double>(model.vocab_size);
  const double kv = h * static_cast<double>(model.num_query_groups) /
                    static_cast<double>(model.num_attention_heads);
  return {.linear = 2 * s * (2 * h * h + 2 * h * kv + 3 * h * f),
          .attention = 2 * s * s * h,
          .head = 2 * s * v * h};
}

}  // namespace

// Kernels: gradients zeroed, linear, relu, linear, error; backward of the error, bias and weight of
// the output layer, whose bucket is then ready; its input, relu, bias and weight of the hidden
// layer; two updates.
TEST_CASE("communication is hidden as long as it runs beside computing") {
  // The loss and the first bucket end beside backward, the second bucket waits for nothing.
  check_split({}, {.compute = 140, .exposed = 6, .bubble = 0, .hidden = 12});
  // Both buckets are reduced after backward; the loss stays beside it.
  check_split({"parallelism.overlap_grad_reduce=false"},
              {.compute = 140, .exposed = 12, .bubble = 0, .hidden = 6});
  // Reductions of 100 us queue: the loss begins after 50 us of 140, and backward takes 70. Its last
  // 30 us are a bubble, since what is waited for, the first bucket, has not begun.
  check_split({"system.intra_node.latency_us=50"},
              {.compute = 140, .exposed = 200, .bubble = 30, .hidden = 100});
}

// Weights and two moments go to all members, where a step sends 2 (n-1)/n of the gradients from
// each: on a link so slow that nothing else counts, more than the step itself.
TEST_CASE("a step in which ranks join or leave takes longer by what that costs") {
  const auto seconds = [](const std::string& members) {
    const Result result = run_scenario(load_scenario("scenarios/verify-llama-elastic.json",
                                                     {"execution.tensors=meta", "execution.steps=2",
                                                      "parallelism.elastic_members=" + members,
                                                      "system.intra_node.bandwidth_gb_per_s=0.01",
                                                      "system.inter_node.bandwidth_gb_per_s=0.01"}))
                              .result;
    CHECK(result.exit_code == 0);
    return *result.number("step_time_s");
  };
  CHECK(seconds("[7,8]") > 2 * seconds("[8,8]"));
  CHECK(seconds("[8,7]") > seconds("[7,7]"));
}

TEST_CASE("mfu counts the flops that the model needs, hfu those that were computed") {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{}, {"parallelism.tp=2"}, {"parallelism.pp=2"}}) {
    for (const std::string recompute : {"none", "selective", "full"}) {
      std::vector<std::string> overrides = layout;
      overrides.push_back("training.recompute=" + recompute);
      INFO((layout.empty() ? "data parallel" : layout.front()) << ", recompute " << recompute);
      const Scenario scenario = load_scenario_text(kLlama, "test.json", overrides);
      const Result result = run_scenario(scenario).result;
      const Flops flops = flops_of(scenario.model);
      const auto layers = static_cast<double>(scenario.model.num_layers);
      const double model = 3 * (layers * (flops.linear + flops.attention) + flops.head);
      // Selective recomputes what has no products; full, the forward of all layers.
      const double again = recompute == "full" ? layers * (flops.linear + flops.attention) : 0.0;
      const double computed = model + layers * flops.attention / 2 + again;
      const double samples_per_rank = 8.0 / 4.0;
      const double rate = samples_per_rank / (*result.number("step_time_s") * 10e12);
      // Quotients of whole numbers: a few roundings.
      CHECK(*result.number("mfu") == Approx(model * rate).epsilon(1e-12));
      CHECK(*result.number("hfu") == Approx(computed * rate).epsilon(1e-12));
      CHECK(*result.number("model_tflops_per_gpu") == Approx(10 * model * rate).epsilon(1e-12));
    }
  }
}

}  // namespace shardsim::test
