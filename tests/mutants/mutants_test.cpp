#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/finding.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// Mutants: bugs planted on purpose, to test the tests. Every one must be found by the oracle, which
// must name the step, the rank, a tensor and the factor by which it is off. None may survive.
namespace shardsim::test {
namespace {

Approx about(double factor) { return Approx(factor).epsilon(1e-3); }

}  // namespace

TEST_CASE("without a bug the communicators of mutants change nothing") {
  for (const std::string& name : kAll) {
    const Scenario scenario = scenario_of(name);
    const Result plain = run_scenario(scenario).result;
    const Result wrapped = run_scenario(scenario, {.wrap_world = plant({})}).result;
    INFO(name);
    CHECK(wrapped.exit_code == 0);
    CHECK(*wrapped.find("trace_hash") == *plain.find("trace_hash"));
    CHECK(*wrapped.find("oracle.max_rel_error.grads") == *plain.find("oracle.max_rel_error.grads"));
  }
}

// Each rank divides by about an eighth of all targets: an eighth exactly only if all ranks had the
// same number of them.
TEST_CASE("no averaging is found: gradients about as many times too large as there are ranks") {
  for (const std::string& name : kAll) {
    const Finding finding = found(name, no_averaging());
    INFO(name << ", factor " << finding.factor);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
    CHECK(finding.factor == Approx(8.0).epsilon(0.2));
  }
}

// The factor hardly tells: ranks' weights differ by some percent, and their mean is about one.
TEST_CASE("a loss that is a mean of the ranks' means is found where targets are unequal") {
  for (const std::string& name : kAll) {
    const Finding finding = found(name, mean_of_means());
    INFO(name << ": " << finding.tensor << " times " << finding.factor);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
    CHECK(finding.factor == Approx(1.0).epsilon(0.2));
    // With equally many targets on all ranks it is the mean: no bug is left.
    const Scenario equal = scenario_of(name, 2, {"training.ignore_fraction=0"});
    CHECK(run_scenario(equal, {.wrap_world = plant(mean_of_means())}).result.exit_code == 0);
  }
}

TEST_CASE("double averaging is found: gradients are an eighth, over one group or over two") {
  for (const std::string& name : kAll) {
    const Finding finding = found(name, double_averaging());
    INFO(name);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
    CHECK(finding.factor == about(0.125));
  }
}

TEST_CASE("a second reduction is found: gradients times the size of the group") {
  for (const std::string& name : kDdp) CHECK(found(name, reduced_twice()).factor == about(8.0));
  // With hybrid sharding only the replicas all_reduce: 4 for Llama, 2 for GPT.
  CHECK(found("llama-hsdp", reduced_twice()).factor == about(4.0));
  CHECK(found("gpt-hsdp", reduced_twice()).factor ==
        about(static_cast<double>(scenario_of("gpt-hsdp").parallelism.dp_replicate)));
}

TEST_CASE("every single dropped reduction is found, in a tensor that it should have reduced") {
  for (const std::string& name : kAll) {
    const Scenario scenario = scenario_of(name, 1);
    const Experiment experiment = compile(scenario);
    for (const FlatChunk& chunk : experiment.plan().layout(0).chunks()) {
      const Finding finding = found(scenario, dropped_reduction(chunk.label));
      INFO(name << ": " << chunk.label << ", found in " << finding.tensor);
      CHECK(finding.step == 0);
      CHECK(finding.kind == "gradient");
      CHECK(std::any_of(chunk.parameters.begin(), chunk.parameters.end(), [&](int parameter) {
        return experiment.plan().whole().parameters()[static_cast<std::size_t>(parameter)].name ==
               finding.tensor;
      }));
    }
  }
}

TEST_CASE("every single dropped gather is found") {
  for (const std::string& name : kSharded) {
    const Scenario scenario = scenario_of(name, 1);
    const Experiment experiment = compile(scenario);
    for (const FlatChunk& chunk : experiment.plan().layout(0).chunks()) {
      INFO(name << ": " << chunk.label);
      CHECK(found(scenario, dropped_gather(chunk.label)).step == 0);
    }
  }
}

TEST_CASE("a stale gather is found as soon as weights have changed") {
  // Step 1 is the first with an older version than its own. Whole weights are held to the reference
  // right after the gather that ends the step.
  for (const std::string& name : kZero12) {
    const Finding finding = found(name, stale_gather());
    INFO(name);
    CHECK(finding.step == 1);
    CHECK(finding.kind == "parameter");
  }
  // Sharded ones are gathered again for the step, whose gradients are then those of old weights.
  for (const std::string& name : kFullySharded) {
    const Finding finding = found(name, stale_gather());
    INFO(name);
    CHECK(finding.step == 1);
    CHECK(finding.kind == "gradient");
  }
}

// Fewer gathers in later steps are no reason to stop at the bytes of a step.
TEST_CASE("weights that are gathered once and kept are found, and are no internal error") {
  for (const std::string& name : kFullySharded) {
    const Scenario scenario = scenario_of(name, 3);
    const Finding finding = found(scenario, gathered_once());
    INFO(name);
    CHECK(finding.step == 1);
    CHECK(finding.kind == "gradient");
  }
}

TEST_CASE("shards that lie one element off are found") {
  for (const std::string& name : kSharded) {
    const Finding reduced = found(name, shifted_reduce_scatter());
    INFO(name);
    CHECK(reduced.step == 0);
    CHECK(reduced.kind == "gradient");
    const Finding gathered = found(name, shifted_gather());
    CHECK(gathered.step == 0);
  }
}

TEST_CASE("a reduction over the wrong group is found") {
  for (const std::string& name : kDdp) {
    CHECK(found(name, neighbours_as_group("dp")).kind == "gradient");
  }
  // Four replicas of each of two shards: neighbours are a mixture of both.
  CHECK(found("llama-hsdp", neighbours_as_group("dp_replicate")).kind == "gradient");
  for (const std::string& name : kSharded) {
    CHECK(found(name, reversed_group("dp_shard")).step == 0);
  }
}

TEST_CASE("a reduction by maximum is found") {
  for (const std::string& name : kAll) CHECK(found(name, reduced_by_max()).kind == "gradient");
}

TEST_CASE("a rank that counts double or not at all is found") {
  for (const std::string& name : kAll) {
    CHECK(found(name, own_part_twice()).kind == "gradient");
    CHECK(found(name, lost_contribution()).kind == "gradient");
  }
}

TEST_CASE("replicas that do not reduce their shards are found") {
  for (const std::string& name : kHsdp) {
    const Finding finding = found(name, no_replicate_reduction());
    CHECK(finding.step == 0);
    CHECK(finding.kind == "gradient");
  }
}

// Gradients are compared before clipping: the norm shows it, before the weights do.
TEST_CASE("a norm of one shard alone is found as the norm, on the rank that clips by it") {
  int clipping = 0;
  for (const std::string& name : kSharded) {
    if (scenario_of(name).training.max_grad_norm == 0.0) continue;
    ++clipping;
    const Finding finding = found(name, local_norm());
    INFO(name);
    CHECK(finding.step == 0);
    CHECK(finding.kind == "norm");
    CHECK(finding.factor < 1.0);
  }
  CHECK(clipping > 0);
}

}  // namespace shardsim::test
