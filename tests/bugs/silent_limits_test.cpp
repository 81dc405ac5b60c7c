#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/experiment/assumptions.hpp"
#include "sim/run/run.hpp"

// Set fields without effect were not named: latencies beside NCCL's model, which has its own, and a
// network card's bandwidth above the limit of PCIe. Later a machine that a file describes without a
// preset had all its fields exempt.
namespace shardsim {
namespace {

std::vector<std::string> warnings_of(const std::string& flag) {
  const Scenario scenario = load_scenario(
      "tests/effect/dense.json", flag.empty() ? std::vector<std::string>() : std::vector{flag});
  return run_scenario(scenario).result.warnings;
}

// A machine without a preset; `network_gb_per_s` is a network card's bandwidth.
std::string machine_of_its_own(const std::string& network_gb_per_s, const std::string& more) {
  return R"({"schema_version": 1, "name": "own machine",
  "model": {"family": "gpt2", "num_layers": 2, "hidden_size": 256, "ffn_hidden_size": 512,
    "num_attention_heads": 4, "vocab_size": 800, "seq_len": 128},
  "system": {"nodes": 2, "gpus_per_node": 8, "network_model": "nccl", )" +
         more + R"(
    "intra_node": {"bandwidth_gb_per_s": 450, "latency_us": 3},
    "inter_node": {"bandwidth_gb_per_s": )" +
         network_gb_per_s + R"(, "latency_us": 4},
    "device": {"name": "NVIDIA H100", "memory_gib": 80, "memory_bandwidth_gb_per_s": 3350,
      "memory_efficiency": 0.8, "matmul_efficiency": 0.8, "kernel_launch_us": 3,
      "peak_tflops": {"fp32": 67, "bf16": 989}}},
  "training": {"global_batch_size": 32, "precision": "bf16"},
  "execution": {"tensors": "meta"}})";
}

std::vector<std::string> warnings_of_own(const std::string& network, const std::string& more = "") {
  return run_scenario(load_scenario_text(machine_of_its_own(network, more), "own.json", {}))
      .result.warnings;
}

}  // namespace

TEST_CASE("a machine's own required number that always loses is named, one that is unread is not",
          "[desk-5]") {
  CHECK(warnings_of_own("25").empty());
  CHECK(warnings_of_own("100") ==
        std::vector<std::string>{"system.inter_node.bandwidth_gb_per_s has no effect here: a "
                                 "stricter limit always applies: system.pcie_gb_per_s"});
}

TEST_CASE("a machine's own optional number that always loses is named", "[desk-5]") {
  CHECK(warnings_of_own("25", R"("oversubscription": 2, "nodes_per_pod": 1,)").empty());
  CHECK(warnings_of_own("25", R"("pcie_gb_per_s": 90,)") ==
        std::vector<std::string>{"system.pcie_gb_per_s has no effect here: a stricter limit always "
                                 "applies: system.inter_node.bandwidth_gb_per_s"});
}

TEST_CASE("fields that change only tensors' values share one line, and are no warnings") {
  const Scenario scenario =
      load_scenario("tests/effect/dense.json", {"execution.seed=7", "training.learning_rate=0.5"});
  const Result result = run_scenario(scenario).result;
  CHECK(result.warnings.empty());
  std::vector<std::string> lines;
  for (const Assumption& assumption : result.assumptions) {
    if (assumption.text.rfind(kOnlyValues, 0) == 0) lines.push_back(assumption.text);
  }
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("execution.seed") != std::string::npos);
  CHECK(lines[0].find("training.learning_rate") != std::string::npos);
}

TEST_CASE("a latency that NCCL's model does not read is named", "[desk-5]") {
  CHECK(warnings_of("").empty());
  for (const std::string path : {"system.intra_node.latency_us", "system.inter_node.latency_us"}) {
    CHECK(warnings_of(path + "=123") ==
          std::vector<std::string>{path + " has no effect here: this run does not use it"});
  }
}

TEST_CASE("a bandwidth that loses against PCIe is named with the winner", "[desk-5]") {
  const std::string path = "system.inter_node.bandwidth_gb_per_s";
  CHECK(warnings_of(path + "=100") ==
        std::vector<std::string>{path + " has no effect here: a stricter limit always "
                                        "applies: system.pcie_gb_per_s"});
  CHECK(warnings_of(path + "=25").empty());
}

}  // namespace shardsim
