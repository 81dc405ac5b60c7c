#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

// Warnings of optimizers that blow up the rounding of a key's bias, whose gradient is zero.

using namespace shardsim;
using namespace shardsim::testing;

TEST_CASE(
    "weight decay that blows up the rounding of a key's bias warns, and says what to change") {
  const auto warnings = [](std::string (*text)(), const std::vector<std::string>& changes) {
    std::vector<std::string> flags = {"execution.tensors=real",
                                      "training.optimizer=adam",
                                      "training.learning_rate=0.003",
                                      "training.weight_decay=0.5",
                                      "training.precision=fp64",
                                      "parallelism.zero_stage=0",
                                      "parallelism.data_parallel=async_sgd",
                                      "execution.steps=3"};
    flags.insert(flags.end(), changes.begin(), changes.end());
    return loaded(text(), flags).warnings;
  };
  for (const char* optimizer : {"adam", "rmsprop"}) {
    const std::string choice = std::string("training.optimizer=") + optimizer;
    const std::vector<std::string> found = warnings(gpt_text, {choice});
    INFO(choice);
    REQUIRE(found.size() == 1);
    CHECK(found[0].find(std::string("training.weight_decay is part of the gradient in ") +
                        optimizer) == 0);
    CHECK(found[0].find("use adamw, no training.weight_decay, or training.epsilon=0.0015") !=
          std::string::npos);
    // Each of these cures it.
    CHECK(warnings(gpt_text, {choice, "training.epsilon=0.0015"}).empty());
    CHECK(warnings(gpt_text, {choice, "training.epsilon=0.0008"}).empty());
    CHECK(warnings(gpt_text, {choice, "training.epsilon=0.0007"}).size() == 1);
    CHECK(warnings(gpt_text, {choice, "training.weight_decay=0"}).empty());
    CHECK(warnings(gpt_text, {choice, "training.optimizer=adamw"}).empty());
    // A plan has no numbers, llama no bias, and the reference follows other data parallelism.
    CHECK(warnings(gpt_text, {choice, "parallelism.data_parallel=synchronous"}).empty());
    CHECK(warnings(gpt_text, {choice, "execution.tensors=meta"}).empty());
    CHECK(warnings(valid_text, {choice}).empty());
  }
}

TEST_CASE("lion with data parallelism that is another algorithm warns where biases of keys are") {
  const auto warnings = [](std::string (*text)(), const std::vector<std::string>& changes) {
    std::vector<std::string> flags = {"execution.tensors=real",
                                      "training.optimizer=lion",
                                      "training.precision=fp64",
                                      "parallelism.zero_stage=0",
                                      "parallelism.data_parallel=async_sgd",
                                      "execution.steps=3"};
    flags.insert(flags.end(), changes.begin(), changes.end());
    return loaded(text(), flags).warnings;
  };
  REQUIRE(warnings(gpt_text, {}).size() == 1);
  CHECK(warnings(gpt_text, {})[0].find("training.optimizer lion moves each weight by the sign") ==
        0);
  CHECK(warnings(valid_text, {}).empty());
  CHECK(warnings(gpt_text, {"training.optimizer=adamw"}).empty());
  CHECK(warnings(gpt_text, {"parallelism.data_parallel=synchronous"}).empty());
}
