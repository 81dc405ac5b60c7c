#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"
#include "sim/verify/open_calls.hpp"

#include "tests/mutants/wrong_numbers.hpp"
#include "tests/sample.hpp"

// Rounding decides the side of ReLU's corner for an input near zero. The oracle once took that for
// noise that hides everything ("nothing is proven"), or for a fault of the strategy.
namespace shardsim::test {

namespace {

constexpr std::uint32_t kSeedParts = 3;

Scenario narrow(const std::string& name, const char* precision, int seed) {
  return load_scenario(
      "scenarios/" + name + ".json",
      {std::string("training.precision=") + precision, "execution.seed=" + std::to_string(seed)});
}

}  // namespace

TEST_CASE("a perceptron's layouts are right in 16 bits, whoever takes which side of a corner") {
  for (const char* name : {"verify-mlp-ddp", "verify-mlp-tp2"}) {
    for (const char* precision : {"bf16", "fp16"}) {
      for (int seed = 1; seed <= 12; ++seed) {
        if (!in_sample(std::string(name) + precision + std::to_string(seed), kSeedParts)) continue;
        const Result result = run_scenario(narrow(name, precision, seed)).result;
        INFO(name << " " << precision << " " << seed << ": " << result.checks.back().detail);
        CHECK(result.exit_code == 0);
      }
    }
  }
}

TEST_CASE("sides are no excuse for a contribution that is lost, or a mean that is taken twice") {
  for (const char* name : {"verify-mlp-ddp", "verify-mlp-tp2"}) {
    for (int seed = 1; seed <= 4; ++seed) {
      if (!in_sample(std::string(name) + std::to_string(seed), kSeedParts)) continue;
      const Scenario scenario = narrow(name, "bf16", seed);
      INFO(name << " " << seed);
      CHECK(run_scenario(scenario, {.wrap_world = plant(lost_contribution())}).result.exit_code ==
            1);
      CHECK(run_scenario(scenario, {.wrap_world = plant(double_averaging())}).result.exit_code ==
            1);
    }
  }
}

TEST_CASE("changes that explain a difference are taken whole or not at all") {
  const std::vector<std::vector<double>> changes = {
      {1.0, 0.0, 0.0}, {0.0, 2.0, 0.0}, {0.5, 0.0, 3.0}};
  using Found = std::vector<std::size_t>;
  CHECK(explain({1.5, 0.1, 2.9}, changes) == Found{0, 2});
  CHECK(explain({0.0, 2.1, 0.1}, changes) == Found{1});
  CHECK(explain({0.4, 0.9, -3.0}, changes) == Found{});
  CHECK(explain({1.0}, {}) == Found{});
}

}  // namespace shardsim::test
