#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/command/verbs.hpp"

#include "tests/app/command_fixture.hpp"

// The first example of `diff` compared a model of 2 layers with one of 3, and called the strategy
// of the smaller one faster.
namespace shardsim::test {

TEST_CASE("desk point 8: the first example of diff differs in one thing", "[desk-8]") {
  const std::string example = diff_verb().examples.front().first;
  const std::string readme = content_of("README.md");
  CHECK(contains(readme, example.substr(example.find(' ') + 1)));
  const Printed printed = shardsim(
      {"diff", "scenarios/verify-gpt-zero2.json", "scenarios/verify-gpt-zero2-offload.json"});
  CHECK(contains(example, "scenarios/verify-gpt-zero2.json "));
  CHECK(contains(example, "scenarios/verify-gpt-zero2-offload.json"));
  CHECK(printed.exit_code == 0);
  CHECK_FALSE(contains(printed.out, "model."));
  CHECK_FALSE(contains(printed.err, "different trainings"));
}

TEST_CASE("desk point 8: diff warns of sides that are different trainings", "[desk-8]") {
  struct Case {
    std::vector<std::string> words;
    const char* warning;  // Empty: none.
  };
  const std::vector<Case> cases = {
      {{"scenarios/verify-gpt-zero2.json", "scenarios/verify-llama-zero2.json"},
       "warning: these are different trainings: llama instead of gpt2, 2 layers instead of 3"},
      {{kPlan, "--set", "training.global_batch_size=256"},
       "warning: these are different trainings: 256 sequences instead of 128;"},
      {{kPlan, "--set", "model.seq_len=4096"},
       "warning: these are different trainings: sequence length 4096 instead of 8192;"},
      // Another machine, layout or length of the training is the same training.
      {{kPlan, "--set", "system.nodes=16"}, ""},
      {{kPlan, "--set", "parallelism.zero_stage=2"}, ""},
      {{kPlan, "--set", "training.tokens_total=1000000000000"}, ""},
  };
  for (const Case& each : cases) {
    std::vector<std::string> words = {"diff"};
    words.insert(words.end(), each.words.begin(), each.words.end());
    const Printed printed = shardsim(words);
    INFO(printed.err);
    CHECK(printed.exit_code == 0);
    CHECK(contains(printed.err, "different trainings") == (*each.warning != '\0'));
    CHECK(contains(printed.err, each.warning));
  }
}

}  // namespace shardsim::test
