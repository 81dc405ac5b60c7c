#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/app/run.hpp"

#include "tests/mutants/wrong_numbers.hpp"

// The oracle once failed correct strategies that reduce gradients in a narrower type than the
// weights'. It compared updates that differ in the sixteenth digit with a noise of zero.
namespace shardsim::test {

namespace {

Scenario narrow(const std::string& name, const char* reduced, const char* optimizer) {
  return load_scenario("scenarios/" + name + ".json",
                       {std::string("training.grad_reduce_dtype=") + reduced,
                        std::string("training.optimizer=") + optimizer, "training.epsilon=1e-8",
                        "execution.steps=2"});
}

}  // namespace

TEST_CASE("strategies in fp64 that reduce in a narrower type are right") {
  for (const char* name : {"verify-gpt-tp4", "verify-gpt-hsdp", "verify-llama-cp2-fsdp4"}) {
    for (const char* reduced : {"fp32", "bf16"}) {
      for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop"}) {
        const Result result = run_scenario(narrow(name, reduced, optimizer)).result;
        INFO(name << " " << reduced << " " << optimizer << ": " << result.checks.back().detail);
        CHECK(result.exit_code == 0);
      }
    }
  }
}

TEST_CASE("a lost contribution is found in them, and a mean that is taken twice") {
  const Scenario scenario = narrow("verify-gpt-hsdp", "bf16", "adamw");
  CHECK(run_scenario(scenario, {.wrap_world = plant(lost_contribution())}).result.exit_code == 1);
  CHECK(run_scenario(scenario, {.wrap_world = plant(double_averaging())}).result.exit_code == 1);
}

}  // namespace shardsim::test
