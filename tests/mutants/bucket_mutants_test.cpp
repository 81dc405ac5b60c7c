#include <string>

#include <catch2/catch.hpp>

#include "sim/run/run.hpp"

#include "tests/mutants/bucket_faults.hpp"
#include "tests/mutants/finding.hpp"
#include "tests/mutants/first_microbatch.hpp"
#include "tests/mutants/score.hpp"

// P56 for the time at which buckets of gradients are reduced, and are read and written around it.
namespace shardsim::test {
namespace {

// One reduction per bucket and step, so that a bucket holds what a step before left in it.
Scenario once_per_step(const std::string& name, int num_microbatches) {
  return scenario_of(name, 2,
                     {"parallelism.sync_every_microbatch=false",
                      "training.num_microbatches=" + std::to_string(num_microbatches),
                      // A batch of 16 on 8 ranks.
                      "training.micro_batch_size=" + std::to_string(2 / num_microbatches)});
}

}  // namespace

TEST_CASE("a reduction that starts on the first of two microbatches is found") {
  for (const std::string& name : kSharded) {
    const Scenario scenario = once_per_step(name, 2);
    const Finding finding = found_in(scenario, run_reducing_first_microbatch(scenario));
    INFO(name << ": " << finding.tensor << " times " << finding.factor);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
    // Half of the samples make about half of the gradient.
    CHECK(finding.factor == Approx(0.5).epsilon(0.25));
    // With one microbatch the first is the last: no bug is left.
    const Result right = run_reducing_first_microbatch(once_per_step(name, 1));
    CHECK(right.exit_code == 0);
    CHECK(finder_in(right) == Detector::nobody);
  }
}

TEST_CASE("a bucket that is reduced before its first copy is found: nothing is in it") {
  for (const std::string& name : kAll) {
    const Finding finding = found(once_per_step(name, 2), read_before_first_copy());
    INFO(name);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
    CHECK(finding.factor == 0.0);
  }
}

TEST_CASE("a bucket that is reduced before its next copy is found in the next step") {
  for (const std::string& name : kAll) {
    const Finding finding = found(once_per_step(name, 2), read_before_next_copy());
    INFO(name);
    CHECK(finding.step == 1);
    CHECK(finding.kind == "gradient");
  }
}

TEST_CASE("a bucket that is freed and cleared during its reduction is found") {
  for (const std::string& name : kAll) {
    const Finding finding = found(once_per_step(name, 2), freed_in_flight());
    INFO(name);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
    CHECK(finding.factor == 0.0);  // All members clear theirs before data are combined.
  }
}

// The oracle sees values only; who watches the run sees who touches what.
TEST_CASE(
    "a bucket that is touched during its reduction and keeps its values is found if watched") {
  for (const std::string& name : kAll) {
    const Scenario scenario = once_per_step(name, 2);
    const RunHooks unseen{.wrap_world = plant(touched_in_flight())};
    RunHooks watched = unseen;
    watched.watch = true;
    INFO(name);
    CHECK(run_scenario(scenario, unseen).result.number("oracle.passed") == 1.0);
    count_mutant(Detector::buffers, finder_in(run_scenario(scenario, watched).result));
  }
}

}  // namespace shardsim::test
