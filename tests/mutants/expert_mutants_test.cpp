#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/mutants/expert_faults.hpp"
#include "tests/mutants/finding.hpp"
#include "tests/mutants/mutant_lists.hpp"
#include "tests/mutants/norm_faults.hpp"
#include "tests/mutants/score.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// P56 for experts: what went wrong with them elsewhere, planted here. Most are silent in a loss.
namespace shardsim::test {
namespace {

// Dropless and with a capacity, declared and learned, sharded and not.
const Names kExperts = {"llama-ep4-uniform",  "llama-ep4-learned",  "llama-ep4-skewed",
                        "llama-ep4-capacity", "llama-ep2-file",     "llama-ep2-pp2-dp2",
                        "llama-ep4-tp2-sp",   "llama-ep2-hsdp-pp2", "llama-ep2-zero3"};
const Names kBalanced = {"llama-ep4-uniform", "llama-ep4-learned", "llama-ep4-tp2-sp",
                         "llama-moe-tp2-sp"};

void check_found(const Names& names, const Faults& faults, const char* bug) {
  for (const std::string& name : names) {
    INFO(name << ": " << bug);
    (void)found(scenario_of(name), faults);
  }
}

}  // namespace

TEST_CASE("P56: experts' gradients by the wrong factor, and lost or shifted tokens, are found") {
  for (const Mutant& mutant : expert_mutants()) {
    INFO(mutant.scenario << ": " << mutant.bug);
    (void)found(mutant.scenario, mutant.faults);
  }
}

TEST_CASE("P56: gradients of experts summed over other ranks than those that have them are found") {
  // Groups of the right size of the wrong ranks: neighbours, which have different experts.
  check_found({"llama-ep2-file", "llama-ep2-zero3"}, pairs_as_group("dp_shard_experts", 1),
              "experts summed over neighbours");
}

TEST_CASE("P56: a token that comes back as another one is found in further layouts") {
  for (const char* label :
       {"expert tokens", "expert outputs", "expert output gradients", "expert token gradients"}) {
    check_found({"llama-ep4-skewed", "llama-ep2-file", "llama-ep2-pp2-dp2", "llama-ep2-hsdp-pp2"},
                shifted_rows(label), label);
  }
}

TEST_CASE("P56: an auxiliary loss of each rank's own tokens is found") {
  check_found(kBalanced, dropped_reduction("expert loads"), "loads of one rank");
}

TEST_CASE("P56: biases of the choice that follow the loads of one rank are found") {
  const Names scenarios = {"llama-choice-bias-ep2-zero2", "llama-choice-bias-ep2-tp2-dp2-sp-zero3"};
  check_found(scenarios, dropped_reduction("router loads"), "loads of one rank");
}

TEST_CASE("P56: a norm without experts, or with those of one rank, is found") {
  for (const std::string& name : kExperts) {
    const Scenario scenario = scenario_of(name, 1);
    REQUIRE(scenario.training.max_grad_norm > 0.0);
    const auto dense_alone = [](const ParameterSpec& spec, const MeshPlace& place) {
      return !spec.expert && (spec.is_split() || place.tp == 0);
    };
    INFO(name);
    (void)found_in(scenario, run_with_sync(scenario, norm_of(dense_alone)));
    Faults own_experts;
    own_experts.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                                const CallOptions& options, CallSite site) {
      const bool dropped = std::string("grad_norm") == options.label && caller.to.name() == "ep";
      return dropped ? Work() : caller.to.all_reduce(buffer, op, options, site);
    };
    (void)found(scenario, own_experts);
  }
}

}  // namespace shardsim::test
