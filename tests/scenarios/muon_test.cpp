#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/scenarios/support.hpp"

namespace shardsim::testing {

namespace {

const std::string kMuonIs = "training.optimizer=muon";

std::string refusal_of(const std::vector<std::string>& changes) {
  std::vector<std::string> flags = {kMuonIs};
  flags.insert(flags.end(), changes.begin(), changes.end());
  const Problem problem = only_problem_of(valid_text(), flags);
  return problem.code + " " + problem.message;
}

}  // namespace

TEST_CASE("muon has settings of its own, and those of the optimizer of the rest") {
  const Scenario s = loaded(valid_text(), {kMuonIs, "parallelism.zero_stage=1"});
  CHECK(s.training.uses_muon());
  CHECK(s.training.elementwise_optimizer() == "adamw");
  CHECK(s.training.weight_decay == 0.01);
  CHECK(s.training.muon.momentum == 0.95);
  CHECK(s.training.muon.nesterov);
  CHECK(s.training.muon.num_steps == 5);
  CHECK(s.training.muon.coefficients == MuonCoefficients::quintic);
  CHECK(s.training.muon.scale == MuonScale::spectral);
  CHECK(s.training.muon.extra_scale_factor == 1.0);
  CHECK(s.training.muon.tensor_parallel == MuonTensorParallel::duplicated);
  CHECK(s.training.muon.data_parallel == MuonDataParallel::layer_wise);
  const Scenario lion = loaded(
      valid_text(), {kMuonIs, "parallelism.zero_stage=0", "training.muon_scalar_optimizer=lion",
                     "training.muon_tp_mode=distributed", "training.muon_nesterov=false"});
  CHECK(lion.training.elementwise_optimizer() == "lion");
  CHECK(lion.training.muon.tensor_parallel == MuonTensorParallel::distributed);
  CHECK_FALSE(lion.training.muon.nesterov);
  // Without muon the same names choose one optimizer of all weights.
  CHECK(loaded(valid_text(), {"training.optimizer=lion"}).training.elementwise_optimizer() ==
        "lion");
}

TEST_CASE("muon is refused with what it is not made for, by name") {
  for (const char* stage : {"2", "3"}) {
    CHECK(refusal_of({std::string("parallelism.zero_stage=") + stage})
              .find(std::string("E0206 optimizer \"muon\" needs whole gradients of the matrices "
                                "that a rank updates, which zero_stage ") +
                    stage) == 0);
  }
  CHECK(refusal_of({"parallelism.zero_stage=1", "parallelism.offload_optimizer=true",
                    "system.device.host_bandwidth_gb_per_s=50"})
            .find("E0206 optimizer \"muon\" iterates on what is on the device") == 0);
  CHECK(refusal_of({"parallelism.zero_stage=0", "parallelism.data_parallel=async_sgd",
                    "execution.steps=3"})
            .find("E0206 optimizer \"muon\" is not combined with data_parallel \"async_sgd\"") ==
        0);
}

}  // namespace shardsim::testing
