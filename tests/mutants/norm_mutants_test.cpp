#include <string>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/whole_state.hpp"

#include "tests/mutants/finding.hpp"
#include "tests/mutants/norm_faults.hpp"
#include "tests/mutants/score.hpp"

// P56 for the norm that gradients are clipped by: who counts.
namespace shardsim::test {
namespace {

// With tensor parallelism, with tied weights on two stages, or with both.
const Names kTensorParallel = {"gpt-tp4",
                               "llama-sp2",
                               "llama-fsdp4-tp2",
                               "gpt-tp2-pp2-dp2-zero1",
                               "llama-tp2-pp2-dp2-sp",
                               "gpt-hsdp-tp2-pp2"};
const Names kCopied = {"llama-copied-heads-tp4", "llama-copied-heads-windows-cp2-tp4-dp2"};
const Names kTied = {"gpt-pp4-1f1b", "gpt-tp2-pp2-dp2-zero1", "gpt-hsdp-tp2-pp2"};

void check_found(const std::string& name, const Counts& counts) {
  const Scenario scenario = scenario_of(name, 1);
  REQUIRE(scenario.training.max_grad_norm > 0.0);
  const Finding finding = found_in(scenario, run_with_sync(scenario, norm_of(counts)));
  INFO(name << ": " << finding.kind << " of " << finding.tensor << " times " << finding.factor);
  CHECK(finding.step == 0);
  CHECK(finding.kind == "norm");
  CHECK(finding.factor != Approx(1.0).epsilon(1e-6));
}

}  // namespace

TEST_CASE("P56: a norm that counts one copy of each gradient is right") {
  for (const Names& names : {kTensorParallel, kCopied, kTied}) {
    for (const std::string& name : names) {
      const Result right = run_with_sync(scenario_of(name, 1), norm_of(is_main_copy));
      INFO(name);
      CHECK(right.exit_code == 0);
      CHECK(finder_in(right) == Detector::nobody);
    }
  }
}

TEST_CASE("P56: a norm that counts what all tensor-parallel ranks have on each is found") {
  for (const std::string& name : kTensorParallel) {
    check_found(name, counts_on_every_tensor_parallel_rank);
  }
}

TEST_CASE("P56: a norm that counts what tensor-parallel ranks all have on none is found") {
  for (const std::string& name : kTensorParallel) check_found(name, counts_split_alone);
}

TEST_CASE("P56: a norm that counts each copy of a key and value head is found") {
  for (const std::string& name : kCopied) check_found(name, counts_every_copy);
}

TEST_CASE("P56: a norm that counts tied weights on both stages is found") {
  for (const std::string& name : kTied) check_found(name, counts_on_both_stages);
}

}  // namespace shardsim::test
