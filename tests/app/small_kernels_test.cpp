#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// Plans of kernels that are shorter than their launch: what CUDA graphs take from the host. And of
// kernels that a limit of power slows.
namespace shardsim::test {
namespace {

Result machine_plan(std::vector<std::string> settings) {
  settings.insert(settings.begin(),
                  {"system.preset=dgx-b200", "system.nodes=1", "system.software=megatron-core-2025",
                   "training.global_batch_size=16", "training.micro_batch_size=1",
                   "model.seq_len=512", "parallelism.zero_stage=1"});
  return run_scenario(load_scenario("scenarios/quickstart.json", settings)).result;
}

double number_of(const Result& result, const char* name) { return *result.number(name); }

}  // namespace

TEST_CASE("the more the host launches as graphs, the less the device waits for it") {
  double before = 1e9;  // Seconds.
  for (const char* graphs : {"none", "mlp", "attn,mlp", "full_iteration"}) {
    INFO(graphs);
    const Result plan = machine_plan(
        {"system.host_us_per_kernel=200", std::string("system.cuda_graphs=") + graphs});
    CHECK(number_of(plan, "time.host_s") < before);
    before = number_of(plan, "time.host_s");
  }
  CHECK(before == 0.0);
}

TEST_CASE("graphs are the same in runs and in recordings") {
  const auto with_engine = [](const std::string& engine) {
    return machine_plan({"system.host_us_per_kernel=200", "system.cuda_graphs=attn,mlp",
                         "execution.engine=" + engine});
  };
  CHECK(number_of(with_engine("run"), "step_time_s") ==
        number_of(with_engine("replay"), "step_time_s"));
}

TEST_CASE("graphs beside blocks that take turns are the same in runs and in recordings") {
  const auto with_engine = [](const std::string& engine, const std::string& graphs) {
    return run_scenario(
               load_scenario("scenarios/verify-llama-tp2-ep4-combined-pp2-delay.json",
                             {"execution.tensors=meta", "execution.engine=" + engine,
                              "system.host_us_per_kernel=50", "system.cuda_graphs=" + graphs}))
        .result;
  };
  for (const char* name : {"step_time_s", "time.host_s"}) {
    INFO(name);
    CHECK(number_of(with_engine("run", "attn,mlp,moe_router"), name) ==
          number_of(with_engine("replay", "attn,mlp,moe_router"), name));
    CHECK(number_of(with_engine("replay", "attn,mlp,moe_router"), name) <
          number_of(with_engine("replay", "none"), name));
  }
}

TEST_CASE("three quarters of the power take a tenth of the clock, and no bandwidth") {
  const auto limited = [](const std::string& watts) {
    return machine_plan(
        {"system.software=none", "model.seq_len=8192", "system.device.power_limit_w=" + watts});
  };
  const double full = number_of(limited("0"), "step_time_s");
  CHECK(number_of(limited("1000"), "step_time_s") == full);
  const double slower = number_of(limited("750"), "step_time_s");
  CHECK(slower > 1.05 * full);   // Most of the step is products,
  CHECK(slower < 1.102 * full);  // which take (4 / 3)^(1/3) as long; the rest does not.
}

}  // namespace shardsim::test
