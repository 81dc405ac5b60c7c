#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"

#include "tests/scenarios/support.hpp"

// The framework that a plan is priced as if nobody names one (docs/decisions/0089).
namespace shardsim::test {
namespace {

constexpr const char* kSixteen = R"({"schema_version": 1, "name": "sixteen",
  "model": {"family": "llama", "num_layers": 8, "hidden_size": 512, "ffn_hidden_size": 1024,
            "num_attention_heads": 16, "vocab_size": 512, "seq_len": 128},
  "system": {"preset": "dgx-h100", "nodes": 2},
  "training": {"global_batch_size": 64, "micro_batch_size": 1, "precision": "bf16"}})";

Scenario sixteen(const std::vector<std::string>& overrides) {
  return load_scenario_text(kSixteen, "test.json", overrides);
}

std::string software_of(const std::vector<std::string>& overrides) {
  return sixteen(overrides).system.software;
}

constexpr const char* kExperts = R"(model.num_experts=4)";

}  // namespace

TEST_CASE("the first row that holds for the layout names the framework") {
  const std::string megatron = "megatron-core-2025";
  CHECK(software_of({}) == megatron);
  CHECK(software_of({"parallelism.zero_stage=3"}) == "torchtitan-2025");
  CHECK(software_of({"parallelism.zero_stage=1"}) == "deepspeed-2024");
  CHECK(software_of({"parallelism.zero_stage=2"}) == "deepspeed-2024");
  // With tensor or pipeline parallelism neither.
  for (const char* stage : {"parallelism.zero_stage=1", "parallelism.zero_stage=3"}) {
    CHECK(software_of({stage, "parallelism.tp=2"}) == megatron);
    CHECK(software_of({stage, "parallelism.pp=2"}) == megatron);
  }
  // Sequence parallelism without tensor parallelism does nothing.
  CHECK(software_of({"parallelism.zero_stage=3", "parallelism.sequence_parallel=true"}) ==
        "torchtitan-2025");
  // Rows for more come first.
  CHECK(software_of({"parallelism.zero_stage=1", kExperts, "model.num_experts_per_token=2",
                     "model.moe_ffn_hidden_size=256", "parallelism.ep=2"}) == megatron);
  CHECK(software_of({"parallelism.zero_stage=1", "parallelism.pp=2", "parallelism.vpp=2"}) ==
        megatron);
}

TEST_CASE("a framework that is named stays, and so does none") {
  for (const char* name : {"none", "megatron-lm-2021"}) {
    const Scenario named = sixteen({std::string("system.software=") + name});
    CHECK(named.system.software == name);
    CHECK_FALSE(named.system.software_is_default);
  }
  const Scenario left = sixteen({});
  CHECK(left.system.software_is_default);
  CHECK(left.system.host_us_per_kernel == 10.0);  // The framework's.
  CHECK(sixteen({"system.host_us_per_kernel=3"}).system.host_us_per_kernel == 3.0);
}

TEST_CASE("numbers, rooflines and machines alone have no framework") {
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{"execution.tensors=real", "model.hidden_size=64",
                                 "model.ffn_hidden_size=64", "model.num_layers=2",
                                 "training.global_batch_size=16"},
        std::vector<std::string>{"system.kernel_model=roofline"}}) {
    INFO(overrides.front());
    const Scenario scenario = sixteen(overrides);
    CHECK(scenario.system.software == "none");
    CHECK_FALSE(scenario.system.software_is_default);
    CHECK(scenario.system.host_us_per_call == 0.0);
  }
  CHECK(scenario_of_system("dgx-h100", {}).system.software == "none");
  CHECK(scenario_of_system("scenarios/quickstart.json", {}).system.software == "none");
  const std::string named = "system.software=megatron-lm-2021";
  CHECK(scenario_of_system("dgx-h100", {named}).system.software == "megatron-lm-2021");
}

TEST_CASE("a resolved scenario names its framework, and is priced alike when it is read again") {
  const Scenario first = sixteen({"parallelism.zero_stage=3"});
  const Scenario second = load_scenario_text(first.resolved_json, "resolved.json");
  CHECK(second.system.software == "torchtitan-2025");
  CHECK(second.system.host_us_per_kernel == first.system.host_us_per_kernel);
}

}  // namespace shardsim::test
