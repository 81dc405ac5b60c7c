#include "sim/app/desk/search/emit.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"

#include "tests/approved_file.hpp"

namespace shardsim::test {

namespace {

Scenario interleaved() {
  return load_scenario_text(
      R"({"schema_version": 1, "model": "llama3-70b",
          "system": {"preset": "dgx-h100", "nodes": 16},
          "parallelism": {"tp": 8, "pp": 4, "vpp": 5, "sequence_parallel": true, "zero_stage": 1},
          "training": {"global_batch_size": 128, "recompute": "selective"}})",
      "test.json");
}

Scenario experts() {
  return load_scenario_text(
      R"({"schema_version": 1, "model": "mixtral-8x7b",
          "system": {"preset": "dgx-h100", "nodes": 4},
          "parallelism": {"tp": 2, "pp": 2, "ep": 4, "cp": 2, "dp_replicate": 2, "zero_stage": 3,
                          "sequence_parallel": true, "schedule": "zb_h1"},
          "training": {"global_batch_size": 64, "recompute": "full", "grad_reduce_dtype": "fp32"}})",
      "test.json");
}

}  // namespace

TEST_CASE("layouts in the words of frameworks") {
  for (const std::string& framework : emitted_frameworks()) {
    require_approved_file("tests/search/golden/interleaved." + framework,
                          emit_for(framework, interleaved()));
    require_approved_file("tests/search/golden/experts." + framework,
                          emit_for(framework, experts()));
  }
}

TEST_CASE("what is emitted for DeepSpeed is JSON, and its batch adds up") {
  for (const Scenario& scenario : {interleaved(), experts()}) {
    const auto json = nlohmann::json::parse(emit_deepspeed(scenario));
    const auto ranks = scenario.parallelism.data_parallel_size();
    CHECK(json["train_batch_size"].get<std::int64_t>() ==
          json["train_micro_batch_size_per_gpu"].get<std::int64_t>() *
              json["gradient_accumulation_steps"].get<std::int64_t>() * ranks);
  }
}

TEST_CASE("an unknown framework is explained") {
  try {
    require_framework("megatrno");
    FAIL("it must be refused");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E1327");
    CHECK(error.fix().find("did you mean \"megatron\"?") != std::string::npos);
  }
}

}  // namespace shardsim::test
