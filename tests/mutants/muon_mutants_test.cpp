#include <string>

#include <catch2/catch.hpp>

#include "tests/mutants/finding.hpp"
#include "tests/mutants/muon_faults.hpp"
#include "tests/mutants/score.hpp"

// P56 for Muon: gradients are right, and what is made of them is not.
namespace shardsim::test {
namespace {

const Names kWholeMatrices = {"gpt-muon-tp2", "llama-muon-tp2-dp2-layer-wise"};

bool is_of_blocks(const std::string& tensor) { return tensor.rfind("blocks.", 0) == 0; }

void check_found_in_matrices(const std::string& name, const Finding& finding) {
  INFO(name << ": " << finding.kind << " of " << finding.tensor << " times " << finding.factor);
  CHECK(finding.step == 0);
  CHECK(finding.kind == "parameter");
  CHECK(is_of_blocks(finding.tensor));
}

void check_muon_found(const std::string& name, void (*change)(MuonOptions&)) {
  const Scenario scenario = scenario_of(name, 2);
  check_found_in_matrices(name, found_in(scenario, run_with_sync(scenario, with_muon(change))));
}

}  // namespace

TEST_CASE("P56: muon made anew with its own settings is right") {
  for (const char* name : {"gpt-muon-tp2", "llama-muon-tp2-dp2-layer-wise", "gpt-muon-zero1-slices",
                           "llama-muon-tp2-distributed", "llama-muon-tp2-blockwise"}) {
    const Result right = run_with_sync(scenario_of(name, 2), with_muon([](MuonOptions&) {}));
    INFO(name);
    CHECK(right.exit_code == 0);
    CHECK(finder_in(right) == Detector::nobody);
  }
}

TEST_CASE("P56: a slice that is iterated as if it were the matrix is found") {
  for (const std::string& name : kWholeMatrices) {
    check_muon_found(
        name, [](MuonOptions& muon) { muon.tensor_parallel = MuonTensorParallel::blockwise; });
  }
}

TEST_CASE("P56: slices that are gathered where each is a matrix of its own are found") {
  check_muon_found("llama-muon-tp2-blockwise", [](MuonOptions& muon) {
    muon.tensor_parallel = MuonTensorParallel::duplicated;
  });
}

// With a constant gradient the term would be a factor, and vanish: the second step shows it.
TEST_CASE("P56: muon without the Nesterov term is found") {
  for (const std::string& name : kWholeMatrices) {
    const Scenario scenario = scenario_of(name, 2);
    const Finding finding = found_in(
        scenario,
        run_with_sync(scenario, with_muon([](MuonOptions& muon) { muon.nesterov = false; })));
    INFO(name << ": " << finding.kind << " of " << finding.tensor);
    CHECK(finding.step == 1);
    CHECK(finding.kind == "parameter");
    CHECK(is_of_blocks(finding.tensor));
  }
}

TEST_CASE("P56: other coefficients, steps and factors than the scenario's are found") {
  for (void (*change)(MuonOptions&) :
       {+[](MuonOptions& muon) { muon.coefficients = MuonCoefficients::simple; },
        +[](MuonOptions& muon) { muon.num_steps = 4; },
        +[](MuonOptions& muon) { muon.scale = MuonScale::shape_scaling; },
        +[](MuonOptions& muon) { muon.extra_scale_factor *= 1.001; }}) {
    check_muon_found("gpt-muon-tp2", change);
  }
}

TEST_CASE("P56: a product over the cut that is not summed is found") {
  const std::string name = "llama-muon-tp2-distributed";
  check_found_in_matrices(name, found(scenario_of(name, 2), without_gram_sums()));
}

}  // namespace shardsim::test
