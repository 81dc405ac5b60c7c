#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/run/run.hpp"

#include "tests/mutants/finding.hpp"
#include "tests/mutants/score.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// P56 for wrong scales of gradients and for groups of wrong ranks where tensor and pipeline
// parallelism are, too: there the ranks of a group need not be neighbours, and not all that is
// summed is a gradient.
namespace shardsim::test {
namespace {

// Two ranks on each axis; those of tensor parallelism are neighbours. `dp_shard` and `pp` are how
// far apart ranks of these axes lie.
struct Composition {
  std::string name;
  int dp_shard;
  int pp;
  double data_ranks;
  Detector tensor_as_data;  // Finds tensor-parallel groups along dp_shard.
  Detector data_as_stages;  // Finds groups of dp_shard along pp.
};
const std::vector<Composition> kCompositions = {
    {"gpt-tp2-pp2-dp2-zero1", 2, 4, 2.0, Detector::oracle, Detector::mismatch},
    // Shards own different numbers of the gradients that are summed over tp; these meet.
    {"llama-tp2-pp2-dp2-sp", 2, 4, 2.0, Detector::mismatch, Detector::mismatch},
    // FSDP gathers before forward, and the second stage's forward waits for the first stage.
    {"gpt-hsdp-tp2-pp2", 2, 8, 4.0, Detector::oracle, Detector::deadlock}};

// Groups called `group`, of ranks `stride` apart, are of ranks `other` apart.
void count_wrong_group(const Scenario& scenario, const std::string& group, int stride, int other,
                       Detector found_by) {
  const auto run_with = [&](int apart) {
    return run_scenario(scenario, {.wrap_world = plant(pairs_as_group(group, apart))}).result;
  };
  INFO(scenario.name << ": groups " << group << " of ranks " << other << " apart");
  CHECK(run_with(stride).exit_code == 0);  // As the mesh makes them: no bug.
  const Result result = run_with(other);
  if (result.diagnosis) UNSCOPED_INFO(result.diagnosis->to_text());
  count_mutant(found_by, finder_in(result));
}

// With a vocabulary that tensor-parallel ranks share evenly, calls look alike and values alone
// tell. Where it is filled up, only the last of them, and of these the last shard, has padding:
// calls that meet differ.
const std::pair<const char*, Detector> kVocabularies[] = {
    {"model.vocab_size=54", Detector::oracle}, {"model.vocab_size=53", Detector::mismatch}};

}  // namespace

TEST_CASE("P56: tensor-parallel groups of wrong ranks are found") {
  for (const Composition& of : kCompositions) {
    const Scenario scenario = scenario_of(of.name, 1);
    count_wrong_group(scenario, "tp", 1, of.dp_shard, of.tensor_as_data);
    // The first stage waits for the second to reduce with it, the second for its activations.
    count_wrong_group(scenario, "tp", 1, of.pp, Detector::deadlock);
  }
}

TEST_CASE("P56: data-parallel groups of wrong ranks are found") {
  for (const Composition& of : kCompositions) {
    for (const auto& [vocabulary, found_by] : kVocabularies) {
      const Scenario scenario = scenario_of(of.name, 1, {vocabulary});
      count_wrong_group(scenario, "dp_shard", of.dp_shard, 1, found_by);
    }
    count_wrong_group(scenario_of(of.name, 1), "dp_shard", of.dp_shard, of.pp, of.data_as_stages);
  }
}

TEST_CASE("P56: embedding groups of wrong ranks are found") {
  for (const Composition& of : kCompositions) {
    for (const auto& [vocabulary, found_by] : kVocabularies) {
      const Scenario scenario = scenario_of(of.name, 1, {"model.tied_embeddings=true", vocabulary});
      count_wrong_group(scenario, "embedding", of.pp, 1, found_by);
      count_wrong_group(scenario, "embedding", of.pp, of.dp_shard, found_by);
    }
  }
}

TEST_CASE("P56: wrong scales of gradients are found under tensor and pipeline parallelism") {
  for (const char* precision : {"fp64", "fp32"}) {
    for (const Composition& of : kCompositions) {
      const Scenario scenario =
          scenario_of(of.name, 1, {std::string("training.precision=") + precision});
      INFO(of.name << " in " << precision);
      CHECK(run_scenario(scenario).result.exit_code == 0);
      const Finding sum = found(scenario, no_averaging());
      CHECK(sum.kind == "gradient");
      // Each rank divides by about its share of all targets: exactly, if all had equally many.
      CHECK(sum.factor == Approx(of.data_ranks).epsilon(0.2));
      const Finding twice = found(scenario, double_averaging());
      CHECK(twice.kind == "gradient");
      // A power of two, printed with four digits; other than that fp32 rounds as without.
      CHECK(twice.factor == Approx(1.0 / of.data_ranks).epsilon(1e-3));
      // Ranks' weights differ by some percent, and their mean is about one.
      const Finding means = found(scenario, mean_of_means());
      CHECK(means.kind == "gradient");
      CHECK(means.factor == Approx(1.0).epsilon(0.2));
    }
  }
}

}  // namespace shardsim::test
