#include <string>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/run.hpp"

#include "tests/backends/fiber_fixture.hpp"

// Sums over many ranks or long runs once left their range: durations of communication, which ended
// the program in a destructor, and operations, which made hfu negative.
namespace shardsim::test {

TEST_CASE("communication that takes 100 days on each of four streams ends in a result") {
  FiberOptions options;
  options.has_data = false;
  options.cluster = test_cluster(2);
  options.cluster.intra_node.latency_s = 0.0;
  options.cluster.intra_node.bytes_per_s = 1.0;
  FiberWorld world(options);
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor large = runtime.allocate(MemoryCategory::comm, {100 * 86400}, DType::fp8_e4m3);
    std::vector<std::unique_ptr<Communicator>> groups;
    std::vector<Work> works;
    for (int i = 0; i < 4; ++i) {
      groups.push_back(everyone.split(0, everyone.rank(), "stream"));
      works.push_back(groups.back()->broadcast(large, 0));
    }
    for (Work& work : works) work.wait();
  });
  CHECK(world.comm_busy(0) > Time::from_picoseconds(0));
}

TEST_CASE("operations of a rank may be more than 64 bits can count") {
  FiberOptions options;
  options.has_data = false;
  options.cluster = test_cluster(1);
  options.cluster.device.peak_flops_per_s.fill(1e15);
  FiberWorld world(options);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  world.run([](Runtime& runtime, Communicator&) {
    for (int i = 0; i < 4; ++i) {
      runtime.compute({"huge", ComputeKind::matmul, DType::fp32, kHuge, 1}, [] {});
    }
  });
  CHECK(world.executed_flops(0) == 0x1p64);
}

namespace {

// One layer per stage, 2^20 sequences in a microbatch, on machines as fast as can be said.
std::string huge(const std::string& model, const std::string& parallelism,
                 const std::string& training) {
  return R"({ "schema_version": 1,
  "model": { "family": "llama", "hidden_size": 1024, "ffn_hidden_size": 1024, "vocab_size": 8,
             "seq_len": 1024, )" +
         model + R"( },
  "system": { "nodes": 1, "gpus_per_node": 8,
    "intra_node": { "bandwidth_gb_per_s": 1e6, "latency_us": 0 },
    "inter_node": { "bandwidth_gb_per_s": 1e6, "latency_us": 0 },
    "device": { "name": "all one could wish", "memory_gib": 1048576,
      "memory_bandwidth_gb_per_s": 1e6, "memory_efficiency": 1,
      "peak_tflops": { "fp64": 1e6 }, "matmul_efficiency": 1, "kernel_launch_us": 0 } },
  "parallelism": { )" +
         parallelism + R"( },
  "training": { "micro_batch_size": 1048576, "global_batch_size": 67108864, "precision": "fp64", )" +
         training + R"( } })";
}

Scenario with_steps(const std::string& text, std::int64_t steps) {
  return load_scenario_text(text, "huge.json", {"execution.steps=" + std::to_string(steps)});
}

// The first problem of that many steps; "" if they are accepted.
std::string refusal(const std::string& text, std::int64_t steps) {
  try {
    static_cast<void>(with_steps(text, steps));
  } catch (const ScenarioError& error) {
    CHECK(error.exit_code() == ExitCode::does_not_fit);
    return error.problems().front().code + " " + error.problems().front().pointer;
  }
  return "";
}

std::int64_t most_steps(const std::string& text) {
  std::int64_t accepted = 1;
  std::int64_t refused = 1'000'000;
  while (refused - accepted > 1) {
    const std::int64_t steps = (accepted + refused) / 2;
    (refusal(text, steps).empty() ? accepted : refused) = steps;
  }
  return accepted;
}

// Elements of a microbatch's activation, and its tokens; 64 microbatches.
constexpr std::int64_t kTokens = std::int64_t{1} << 30;
constexpr std::int64_t kActivation = kTokens * 1024;
constexpr std::int64_t kMicrobatches = 64;
constexpr std::int64_t kBytes = 8;

// Runs as many steps as are accepted, and returns what one sends along an axis.
double sent_by_most_steps(const std::string& text, const std::string& axis) {
  const std::int64_t steps = most_steps(text);
  const Result result = run_scenario(with_steps(text, steps)).result;
  CHECK(result.exit_code == 0);
  const double total = *result.number("comm.bytes_sent.total") * static_cast<double>(steps);
  CHECK(total < 0x1p63);
  CHECK(total > 0x1p61);  // One more would not have fitted by much.
  return *result.number("comm.bytes_sent.by_axis." + axis);
}

}  // namespace

TEST_CASE(
    "tensor-parallel traffic beyond 64 bits is refused by name, and up to there it is right") {
  const std::string text = huge(R"("num_layers": 1, "num_attention_heads": 8)",
                                R"("tp": 8, "sequence_parallel": true)", R"("recompute": "full")");
  const std::int64_t steps = most_steps(text);
  REQUIRE(refusal(text, steps + 1) == "E0353 /parallelism/tp");
  REQUIRE(refusal(text, 1'000'000) == "E0353 /parallelism/tp");
  // Gathers and scatters: 10 of the layer, 4 again, 2 of the embedding, 3 of the head; cross
  // entropy; three norms' gradients.
  const std::int64_t elements =
      kMicrobatches * (19 * kActivation + 6 * kTokens) + 2 * 3 * std::int64_t{1024};
  CHECK(sent_by_most_steps(text, "tp") == static_cast<double>(kBytes * 7 * elements));
}

TEST_CASE("pipeline traffic beyond 64 bits is refused by name, and up to there it is right") {
  const std::string text =
      huge(R"("num_layers": 8, "num_attention_heads": 1)", R"("pp": 8)", R"("recompute": "full")");
  const std::int64_t steps = most_steps(text);
  REQUIRE(refusal(text, steps + 1) == "E0353 /parallelism/pp");
  CHECK(sent_by_most_steps(text, "pp") ==
        static_cast<double>(kBytes * 2 * 7 * kMicrobatches * kActivation));
}

TEST_CASE("weights that are gathered for each microbatch are counted so") {
  // Stage 3 gathers twice per microbatch although it reduces once a step: 8.4 million microbatches
  // of 8 ranks that gather 2 x 9 GB are 2^60 bytes a step.
  std::string text =
      huge(R"("num_layers": 1, "num_attention_heads": 1)",
           R"("zero_stage": 3, "sync_every_microbatch": false)", R"("recompute": "full")");
  const auto replace = [&text](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace(R"("micro_batch_size": 1048576)", R"("micro_batch_size": 1)");
  replace(R"("hidden_size": 1024)", R"("hidden_size": 16384)");
  CHECK(refusal(text, 1).empty());
  CHECK(refusal(text, 10) == "E0353 /execution/steps");
}

}  // namespace shardsim::test
