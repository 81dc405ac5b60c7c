#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"

#include "tests/scenarios/support.hpp"

// A plan that was written has a value for all that a preset gives. Another preset is named then.
namespace shardsim::testing {
namespace {

using nlohmann::json;

std::string plan_of(const std::string& parallelism) {
  return write_changeable(loaded(R"({"schema_version": 1, "model": "gpt2",
      "system": {"preset": "dgx-h100", "nodes": 2}, "parallelism": )" +
                                 parallelism + R"(, "training": {"global_batch_size": 64}})"));
}

std::vector<std::string> warnings_of(const std::string& text,
                                     const std::vector<std::string>& overrides) {
  return load_scenario_text(text, "plan.json", overrides).warnings;
}

bool names(const std::vector<std::string>& warnings, const std::string& start) {
  for (const std::string& warning : warnings) {
    if (warning.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a preset that a plan overrides in all fields is named, and has no effect") {
  const std::string plan = plan_of("{}");
  CHECK_FALSE(names(warnings_of(plan, {}), "system.preset"));
  CHECK_FALSE(names(warnings_of(plan, {}), "model.preset"));
  const std::string preset = "system.preset=dgx-b200";
  CHECK(names(warnings_of(plan, {preset}), "system.preset has no effect here: "));
  CHECK(names(warnings_of(plan, {"model.preset=gpt2-xl"}), "model.preset has no effect here: "));
  const Scenario with = load_scenario_text(plan, "plan.json", {preset});
  CHECK(with.system.device.name == "NVIDIA H100 SXM 80GB");
  CHECK(with.system.preset == "dgx-b200");
}

TEST_CASE("a preset that gives one value has an effect, and the way out replaces all") {
  const std::string plan = plan_of("{}");
  const std::vector<std::string> one = {"system.preset=dgx-b200",
                                        "system.device.peak_tflops.bf16=null"};
  CHECK_FALSE(names(warnings_of(plan, one), "system.preset"));
  CHECK(load_scenario_text(plan, "plan.json", one).system.device.peak_tflops.bf16 == 2250);
  const std::vector<std::string> all = {R"(system={"preset": "dgx-b200", "nodes": 2})"};
  CHECK_FALSE(names(warnings_of(plan, all), "system.preset"));
  CHECK(load_scenario_text(plan, "plan.json", all).system.name == "NVIDIA DGX B200");
}

TEST_CASE("a written plan leaves out what its layout and its training derive") {
  const json plain = json::parse(plan_of("{}"));
  for (const char* key : {"dp_replicate", "dp_shard", "schedule", "vpp", "stage_layers",
                          "cp_ulysses_degree", "first_bucket_bytes", "sync_every_microbatch"}) {
    INFO(key);
    CHECK_FALSE(plain.at("parallelism").contains(key));
  }
  for (const char* key : {"num_microbatches", "grad_reduce_dtype", "fp8_recipe", "loss_scaling",
                          "optimizer_state_dtype", "weight_decay"}) {
    INFO(key);
    CHECK_FALSE(plain.at("training").contains(key));
  }
  const json hybrid = json::parse(plan_of(R"({"dp_replicate": 2, "first_bucket_bytes": 512})"));
  CHECK(hybrid.at("parallelism").at("dp_replicate") == 2);
  CHECK(hybrid.at("parallelism").at("first_bucket_bytes") == 512);
}

}  // namespace shardsim::testing
