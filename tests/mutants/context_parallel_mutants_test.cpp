#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/app/run.hpp"

#include "tests/mutants/context_faults.hpp"
#include "tests/mutants/score.hpp"
#include "tests/mutants/wrong_numbers.hpp"
#include "tests/strategies/training_case.hpp"

// P56 for context parallelism: what ranks send each other of keys, values and their gradients, and
// the sum of gradients over all that see parts of the same samples.
namespace shardsim::test {
namespace {

void add_ring_mutants(std::vector<Mutant>& all) {
  const auto add = [&](const char* scenario, const Hops& hops) {
    all.push_back({scenario, "stale keys and values in backward", stale_keys(hops)});
    all.push_back({scenario, "gradients of keys and values do not come home",
                   lost_gradient_hop(hops, hops.per_layer - 1)});
    if (hops.per_layer == 1) return;
    all.push_back({scenario, "gradients of keys and values are lost on their way",
                   lost_gradient_hop(hops, 0)});
    all.push_back({scenario, "blocks are masked as another rank's", keys_from_behind()});
  };
  add("llama-cp2-ring", {.forward = 2, .per_layer = 1});
  add("llama-cp4-two-level", {.forward = 2, .per_layer = 1});
  add("gpt-cp4-ring", {.forward = 6, .per_layer = 3});
  add("llama-cp2-tp2-dp2", {.forward = 2, .per_layer = 1});
}

std::vector<Mutant> context_mutants() {
  std::vector<Mutant> all;
  add_ring_mutants(all);
  for (const char* scenario : {"gpt-cp3-all-gather", "gpt-cp2-pp2-dp2"}) {
    all.push_back({scenario, "keys are not gathered", dropped_gather("keys and values")});
    all.push_back({scenario, "gradients of keys are not summed",
                   dropped_reduction("key and value gradients")});
  }
  for (const char* scenario : {"llama-cp2-ulysses", "gpt-cp4-two-level-dp2"}) {
    for (const char* label : {"queries, keys and values", "attention output",
                              "attention output gradient", "query, key and value gradients"}) {
      all.push_back({scenario, std::string("no exchange of ") + label, dropped_exchange(label)});
      all.push_back({scenario, std::string("wrong parts of ") + label, shifted_exchange(label)});
    }
  }
  // Weights' gradients, and counts of targets, are those of all who see parts of the samples. Ranks
  // are counted tp, cp, dp.
  all.push_back({"llama-cp2-tp2-dp2", "gradients summed over dp alone", pairs_as_group("dp", 4)});
  all.push_back({"llama-cp2-tp2-dp2", "gradients summed over cp alone", pairs_as_group("dp", 2)});
  for (const char* scenario : {"llama-cp2-ring", "gpt-cp4-ulysses", "llama-cp2-fsdp4"}) {
    all.push_back({scenario, "targets counted on one rank", no_averaging()});
  }
  for (const char* scenario : {"llama-cp2-fsdp4", "gpt-cp4-two-level-dp2"}) {
    all.push_back({scenario, "one rank's gradients are lost", lost_contribution()});
    all.push_back({scenario, "clipping by the norm of one rank's part", local_norm()});
  }
  return all;
}

// Held against the reference of TrainingCase.
double error_without(const std::string& operation, ContextAttention form) {
  TrainingCase c;
  c.name = "llama";
  c.model = small_model("llama");
  c.model.seq_len = 12;
  c.model.context_attention = form;
  c.mesh = {.cp = 3};
  if (!operation.empty()) {
    c.model_of_rank = [&](const ModelPart& part, int) {
      return without_operation(*part.model, operation);
    };
  }
  return worst_error(merge(c, run(c), 0), train_alone(c)[0]).value;
}

}  // namespace

TEST_CASE("P56: every mutant of context parallelism is found") {
  for (const Mutant& mutant : context_mutants()) {
    const Result result = result_of(mutant);
    INFO(mutant.scenario << ": " << mutant.bug);
    if (result.diagnosis) UNSCOPED_INFO(result.diagnosis->to_text());
    count_mutant(mutant.found_by, finder_in(result));
  }
}

TEST_CASE("P56: results of blocks that are not merged, or not packed, are found") {
  const auto found_by = [](double error) {
    return error > 1e-9 ? Detector::oracle : Detector::nobody;
  };
  CHECK(found_by(error_without("", ContextAttention::ring)) == Detector::nobody);
  for (const char* operation : {"attention_merge", "pack_keys_and_values", "attention"}) {
    INFO(operation);
    count_mutant(Detector::oracle, found_by(error_without(operation, ContextAttention::ring)));
  }
}

}  // namespace shardsim::test
