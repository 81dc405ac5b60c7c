#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// training.optimizer_state_dtype: moments in another type than the weights they update.
namespace shardsim::test {
namespace {

constexpr const char* kVerifiedMoments = "scenarios/verify-llama-tp2-zero1-bf16-moments.json";

Result run_of(const char* path, const std::vector<std::string>& overrides,
              const RunHooks& hooks = {}) {
  return run_scenario(load_scenario(path, overrides), hooks).result;
}

}  // namespace

TEST_CASE("moments in 16 bits take four bytes less of each parameter, and time of the update") {
  const auto quickstart = [](const std::vector<std::string>& overrides) {
    return run_of("scenarios/quickstart.json", overrides);
  };
  const Result wide = quickstart({});
  const Result narrow = quickstart({"training.optimizer_state_dtype=bf16"});
  constexpr double kShard = 8030261248.0 / 64;  // Llama 3 8B on 64 ranks; no unit needs padding.
  CHECK(*wide.number("memory.optimizer_bytes.max") == kShard * (4 + 4 + 4));
  CHECK(*narrow.number("memory.optimizer_bytes.max") == kShard * (4 + 2 + 2));
  CHECK(*narrow.number("time.compute_s") < *wide.number("time.compute_s"));
  for (const char* same : {"memory.params_bytes.max", "memory.grads_bytes.max",
                           "comm.bytes_sent.total", "time.exposed_comm_s"}) {
    INFO(same);
    CHECK(*narrow.number(same) == *wide.number(same));
  }
}

TEST_CASE("ranks and the reference round moments alike, whatever is sharded and updated how") {
  for (const char* optimizer : {"momentum", "adam", "adamw", "rmsprop", "lion"}) {
    for (const char* stage : {"0", "1", "2", "3"}) {
      for (const char* dtype : {"bf16", "fp32"}) {
        const Result result = run_of(
            kVerifiedMoments, {std::string("training.optimizer=") + optimizer, "execution.steps=3",
                               std::string("parallelism.zero_stage=") + stage,
                               std::string("training.optimizer_state_dtype=") + dtype});
        CAPTURE(optimizer, stage, dtype);
        CHECK(result.exit_code == 0);
        CHECK(*result.number("oracle.max_rel_error.optimizer_state") <= 1e-9);
      }
    }
  }
}

TEST_CASE("moments in 16 bits do not hide a gradient that is twice too large") {
  CHECK(run_of(kVerifiedMoments, {}, {.wrap_world = plant(no_averaging())}).exit_code == 1);
  // A wider state would be within the bound of a narrower one.
  const std::vector<std::string> in_bf16 = {"training.precision=bf16", "execution.steps=2"};
  CHECK(run_of(kVerifiedMoments, in_bf16).exit_code == 0);
  CHECK(run_of(kVerifiedMoments, in_bf16, {.wrap_world = plant(no_averaging())}).exit_code == 1);
}

TEST_CASE("Muon's momentum keeps the type of the weights it updates") {
  const auto bytes = [](const char* dtype) {
    return *run_of("scenarios/verify-gpt-muon-tp2.json",
                   {std::string("training.optimizer_state_dtype=") + dtype, "execution.steps=1",
                    "training.muon_scalar_optimizer=adam"})
                .number("memory.optimizer_bytes.max");
  };
  // Matrices have one momentum in fp64; of all else the two moments have 2 bytes instead of 8.
  const double of_others = (bytes("fp64") - bytes("bf16")) / (2 * (8 - 2));
  CHECK(of_others > 0);
  CHECK(of_others == (bytes("fp64") - bytes("fp32")) / (2 * (8 - 4)));
  CHECK(bytes("bf16") > 2 * 2 * of_others);
}

TEST_CASE("what is verified in fp64 alone wants its moments in fp64, too") {
  try {
    (void)load_scenario("scenarios/verify-llama-async-sgd.json",
                        {"training.optimizer=adam", "training.optimizer_state_dtype=bf16"});
    FAIL("loaded");
  } catch (const ScenarioError& error) {
    CHECK(contains(error.what(), "fp64"));
  }
}

}  // namespace shardsim::test
