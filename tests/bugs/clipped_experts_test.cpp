#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// Correct strategies in bf16 whose experts clip their gates were said to be wrong: ranks clipped
// elements that the reference did not, and backward took decisions of shared experts for those of
// routed ones.
namespace shardsim::test {

TEST_CASE("experts that clip in bf16 are judged by the decisions of their ranks") {
  const std::vector<std::vector<std::string>> again = {
      {},
      {"training.recompute=selective", "training.recompute_modules=moe_act"},
      {"training.recompute=selective", "training.recompute_modules=moe"},
      {"training.recompute=selective", "training.recompute_modules=shared_experts"},
      {"training.recompute=full"}};
  for (const char* shared : {"0", "1"}) {
    for (const std::vector<std::string>& recomputes : again) {
      std::vector<std::string> settings = {
          "training.precision=bf16", "training.grad_reduce_dtype=fp32", "execution.seed=1",
          "execution.steps=2", std::string("model.num_shared_experts=") + shared};
      settings.insert(settings.end(), recomputes.begin(), recomputes.end());
      CAPTURE(shared, recomputes);
      const Scenario scenario =
          load_scenario("scenarios/verify-llama-gpt-oss-tp2-cp2-ep2-sp.json", settings);
      CHECK(run_scenario(scenario).result.exit_code == 0);
    }
  }
}

}  // namespace shardsim::test
