#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

// parallelism.offload_* and the link that it needs.
namespace shardsim::testing {
namespace {

const std::string kLink = "system.device.host_bandwidth_gb_per_s=30";

Problem offload_refusal(std::vector<std::string> overrides) {
  return only_problem_of(valid_text(), overrides);
}

}  // namespace

TEST_CASE("the optimizer can be offloaded at any stage, gradients at 2 and 3, parameters at 3") {
  for (int stage = 0; stage <= 3; ++stage) {
    const std::string zero = "parallelism.zero_stage=" + std::to_string(stage);
    INFO(zero);
    CHECK(loaded(valid_text(), {kLink, zero, "parallelism.offload_optimizer=true"})
              .parallelism.offload_optimizer);
    const std::vector<std::string> gradients = {kLink, zero, "parallelism.offload_gradients=true"};
    const std::vector<std::string> parameters = {kLink, zero,
                                                 "parallelism.offload_parameters=true"};
    if (stage < 2) {
      CHECK(offload_refusal(gradients).pointer == "/parallelism/offload_gradients");
    } else {
      CHECK(loaded(valid_text(), gradients).parallelism.offload_gradients);
    }
    if (stage < 3) {
      CHECK(offload_refusal(parameters).pointer == "/parallelism/offload_parameters");
    } else {
      CHECK(loaded(valid_text(), parameters).parallelism.offload_parameters);
    }
  }
}

TEST_CASE("what cannot be offloaded says why, and what to do") {
  const Problem whole = offload_refusal({kLink, "parallelism.offload_gradients=true"});
  CHECK(whole.code == "E0206");
  CHECK(whole.message.find("at zero_stage 1 gradients are whole") != std::string::npos);
  CHECK(whole.help.find("zero_stage 2 or 3") != std::string::npos);
  // Stages of a pipeline change neither what is refused nor what is not.
  CHECK(
      offload_refusal({kLink, "parallelism.pp=2", "parallelism.offload_gradients=true"}).message ==
      whole.message);
  CHECK(loaded(valid_text(), {kLink, "parallelism.zero_stage=2", "parallelism.pp=2",
                              "parallelism.offload_gradients=true"})
            .parallelism.offload_gradients);
}

TEST_CASE("offloading needs a link to the host") {
  for (const char* what : {"optimizer", "gradients", "parameters"}) {
    const std::string field = std::string("parallelism.offload_") + what;
    INFO(field);
    const Problem problem = offload_refusal({"parallelism.zero_stage=3", field + "=true"});
    CHECK(problem.code == "E0206");
    CHECK(problem.pointer == std::string("/parallelism/offload_") + what);
    CHECK(problem.message.find("host_bandwidth_gb_per_s is 0") != std::string::npos);
  }
  CHECK(loaded(valid_text()).system.device.host_bandwidth_gb_per_s == 0);
}

}  // namespace shardsim::testing
