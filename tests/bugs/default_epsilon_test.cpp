#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// A key's bias has a gradient of rounding alone. RMSprop at its default epsilon makes an update of
// it, 1e8 times as large; so did Adam with weight decay. Correct fp64 runs failed.
namespace shardsim::test {

TEST_CASE("an optimizer at its default epsilon fails no correct run in fp64") {
  for (const char* base : {"gpt-ddp", "gpt-zero3", "gpt-tp2-pp2-dp2-zero1", "gpt-cp4-ring"}) {
    for (const char* optimizer : {"adam", "adamw", "rmsprop"}) {
      for (const char* decay : {"0", "0.1"}) {
        const Scenario scenario =
            load_scenario("scenarios/verify-" + std::string(base) + ".json",
                          {std::string("training.optimizer=") + optimizer, "training.epsilon=1e-8",
                           std::string("training.weight_decay=") + decay, "execution.steps=4"});
        const Result result = run_scenario(scenario).result;
        INFO(base << ", " << optimizer << ", decay " << decay << ": "
                  << result.checks.back().detail);
        CHECK(result.exit_code == 0);
      }
    }
  }
}

}  // namespace shardsim::test
