#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

// system.cuda_graphs and system.device.power_limit_w: choices that are refused, and why.
namespace shardsim::testing {
namespace {

const std::string kGraphs = "system.cuda_graphs=";

Problem machine_refusal(const std::vector<std::string>& overrides) {
  INFO(overrides.back());
  return only_problem_of(valid_text(), overrides);
}

const std::vector<std::string> kBlocks = {
    "model.family=llama",          "model.num_layers=2",     "model.hidden_size=64",
    "model.num_attention_heads=4", "model.vocab_size=128",   "model.seq_len=16",
    "model.ffn_hidden_size=128",   "training.precision=fp64"};

std::vector<std::string> blocks_with(std::vector<std::string> more) {
  more.insert(more.begin(), kBlocks.begin(), kBlocks.end());
  return more;
}

}  // namespace

TEST_CASE("modules of CUDA graphs have names, and two of these stand alone") {
  for (const char* good : {"none", "full_iteration", "attn", "attn,mlp"}) {
    CHECK(loaded(valid_text(), {kGraphs + good}).system.cuda_graphs == good);
  }
  CHECK(machine_refusal({kGraphs + "atn"}).message == "there is no module \"atn\"");
  CHECK(machine_refusal({kGraphs + "attn,attn"}).code == "E0686");
  CHECK(machine_refusal({kGraphs}).code == "E0686");
  CHECK(machine_refusal({kGraphs + "none,attn"}).message == "none stands beside another module");
  CHECK(machine_refusal({kGraphs + "attn,full_iteration"}).message ==
        "full_iteration stands beside another module");
}

TEST_CASE("what no graph can have is refused by name") {
  const auto message = [](std::vector<std::string> overrides) {
    const Problem problem = machine_refusal(blocks_with(std::move(overrides)));
    CHECK(problem.code == "E0227");
    CHECK(problem.pointer == "/system/cuda_graphs");
    CHECK_FALSE(problem.help.empty());
    return problem.message;
  };
  const std::string experts = "model.num_experts=4";
  const std::string offload = "parallelism.offload_layers=1";
  const std::string link = "system.device.host_bandwidth_gb_per_s=30";
  CHECK(message({kGraphs + "attn", offload, link}).find("graphs of modules cannot copy") == 0);
  CHECK(message({kGraphs + "full_iteration", experts}).find("experts get as many tokens") == 0);
  CHECK(message({kGraphs + "attn", "training.recompute=full"}).find("recompute full") == 0);
  CHECK(
      message({kGraphs + "attn", "system.cuda_launch_blocking=true", "system.host_us_per_kernel=1"})
          .find("cuda_launch_blocking waits for every kernel") == 0);
  // Modules that no layer has, and half of a region.
  CHECK(message({kGraphs + "attn,moe_router"}) == "no layer of the model is moe_router");
  CHECK(message({kGraphs + "attn,mamba"}) == "no layer of the model is mamba");
  CHECK(message({kGraphs + "mlp", experts}) == "no layer of the model is mlp");
  CHECK(message({kGraphs + "attn", "model.parallel_block=true"}).find("branches beside") == 0);
  // Neighbours of each are fine.
  for (const std::vector<std::string>& good : std::vector<std::vector<std::string>>{
           {kGraphs + "full_iteration", experts, "model.moe_capacity_factor=1"},
           {kGraphs + "full_iteration", "training.recompute=full"},
           {kGraphs + "full_iteration", offload, link},
           {kGraphs + "attn", offload, link, "parallelism.offload_modules=core_attn"},
           {kGraphs + "attn,mlp", "model.parallel_block=true"},
           {kGraphs + "attn,moe_router", experts, "training.recompute=selective"}}) {
    CHECK(problems_of(valid_text(), blocks_with(good)).empty());
  }
}

TEST_CASE("a limit of power needs the power it limits, and is below it") {
  const std::string limit = "system.device.power_limit_w=";
  const Problem unknown = machine_refusal({limit + "300"});
  CHECK(unknown.code == "E0228");
  CHECK(unknown.pointer == "/system/device/power_limit_w");
  CHECK(unknown.help == "give system.device.power_w, in watts");
  CHECK(machine_refusal({"system.device.power_w=700", limit + "701"}).message ==
        "701 W are more than the 700 W at which the device has its rates");
  for (const char* watts : {"700", "490"}) {
    CHECK(loaded(valid_text(), {"system.device.power_w=700", limit + watts}).warnings.empty());
  }
  const std::vector<std::string> warnings =
      loaded(valid_text(), {"system.device.power_w=700", limit + "489"}).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().find("is 70 % of power_w: below 70 %") != std::string::npos);
}

TEST_CASE("presets of GPUs say their power, and where it is from") {
  const std::map<std::string, double> known = {
      {"dgx-a100", 400},  {"dgx-h100", 700},     {"dgx-h200", 700},
      {"dgx-b200", 1000}, {"gb200-nvl72", 1200}, {"gb300-nvl72", 1400},
      {"mi300x", 750},    {"mi325x", 1000},      {"mi355x", 1400}};
  for (const auto& [preset, power] : known) {
    INFO(preset);
    const Scenario s = loaded(
        R"({"schema_version": 1, "model": "gpt2", "training": {"global_batch_size": 18432},
            "system": {"nodes": 2, "preset": ")" +
        preset + "\"}}");
    CHECK(s.system.device.power_w == power);
    const bool has_source = std::ranges::any_of(s.sources, [](const NumberSource& source) {
      return source.field == "system.device.power_w" && !source.source.empty();
    });
    CHECK(has_source);
  }
}

}  // namespace shardsim::testing
