#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

// training.loss_scaling and what goes with it.
namespace shardsim::testing {
namespace {

// A device on which every precision runs.
std::string text() {
  return valid_text_with("\"fp64\": 10", "\"fp64\": 9, \"fp32\": 9, \"bf16\": 9, \"fp16\": 9");
}

}  // namespace

TEST_CASE("loss scaling is dynamic where a gradient is fp16, and none elsewhere") {
  const auto kind = [](const std::string& precision, const std::string& reduced) {
    return loaded(text(),
                  {"training.precision=" + precision, "training.grad_reduce_dtype=" + reduced})
        .training.loss_scaling;
  };
  CHECK(kind("fp16", "fp16") == LossScaling::Mode::dynamic);
  CHECK(kind("fp16", "fp32") == LossScaling::Mode::dynamic);
  CHECK(kind("fp32", "fp16") == LossScaling::Mode::dynamic);
  CHECK(kind("bf16", "bf16") == LossScaling::Mode::none);
  CHECK(kind("fp64", "fp32") == LossScaling::Mode::none);
  const TrainingSpec defaults = loaded(text(), {"training.precision=fp16"}).training;
  CHECK(defaults.loss_scale == 65536.0);
  CHECK(defaults.loss_scale_growth_interval == 2000);
  CHECK(defaults.loss_scale_hysteresis == 1);
}

TEST_CASE(
    "loss scaling can be chosen for fp16, and is refused where there is nothing to scale for") {
  for (const char* kind : {"static", "dynamic"}) {
    const std::string chosen = std::string("training.loss_scaling=") + kind;
    INFO(kind);
    CHECK(loaded(text(), {"training.precision=fp16", chosen}).training.loss_scaling !=
          LossScaling::Mode::none);
    for (const char* precision : {"fp64", "fp32", "bf16"}) {
      const Problem problem =
          only_problem_of(text(), {std::string("training.precision=") + precision, chosen});
      CHECK(problem.code == "E0212");
      CHECK(problem.pointer == "/training/loss_scaling");
      CHECK(problem.message.find(std::string("gradients are ") + precision) != std::string::npos);
    }
  }
  CHECK(loaded(text(), {"training.loss_scaling=none"}).training.loss_scaling ==
        LossScaling::Mode::none);
  CHECK(only_problem_of(text(), {"training.precision=fp16", "training.loss_scale=0"}).code ==
        "E0102");
}

TEST_CASE("numbers of loss scaling that do not act are warnings") {
  const auto warnings = [](const std::vector<std::string>& overrides) {
    return loaded(text(), overrides).warnings.size();
  };
  const std::string growth = "training.loss_scale_growth_interval=5";
  CHECK(warnings({"training.precision=fp16", growth}) == 0);
  CHECK(warnings({"training.precision=fp16", "training.loss_scaling=static", growth}) == 1);
  CHECK(warnings({"training.precision=bf16", growth}) == 1);
  CHECK(warnings({"training.precision=bf16", "training.loss_scale=5"}) == 1);
}

TEST_CASE("fp16 without loss scaling warns that gradients are not scaled") {
  const std::string document = valid_text_with("\"fp64\": 10", "\"bf16\": 9, \"fp16\": 9");
  CHECK(loaded(document, {"training.precision=fp16"}).warnings.empty());
  const std::vector<std::string> warnings =
      loaded(document, {"training.precision=fp16", "training.loss_scaling=none"}).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("training.precision is fp16, and training runs without loss scaling") ==
        0);
  CHECK(loaded(document, {"training.precision=bf16"}).warnings.empty());
  // Gradients overflow on the wire, too; the second warning is of the range that they lose there.
  const std::vector<std::string> sent =
      loaded(document, {"training.precision=bf16", "training.grad_reduce_dtype=fp16",
                        "training.loss_scaling=none"})
          .warnings;
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].find(
            "training.grad_reduce_dtype is fp16, and training runs without loss scaling") == 0);
}

}  // namespace shardsim::testing
