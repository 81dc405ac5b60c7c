#include <iostream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/app/run.hpp"

#include "tests/mutants/wrong_numbers.hpp"

// P56 for tensor, sequence and pipeline parallelism: one communication at a time is left out or
// bent. Every mutant must be found by the oracle; the score is printed.
namespace shardsim::test {
namespace {

struct Mutant {
  const char* scenario;
  std::string bug;  // For the message.
  Faults faults;
};

// Only what has this label is bent.
Faults only(const std::string& label,
            const std::function<Work(const Caller&, const Tensor&)>& bug) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    if (options.label == label) return bug(caller, buffer);
    return caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

// The squares of this rank's gradients count twice, as where every tensor-parallel rank counts what
// all of them have.
Work count_twice(const Caller& caller, const Tensor& buffer) {
  if (buffer.has_data()) buffer.set(0, 2.0 * buffer.get(0));
  return caller.to.all_reduce(buffer, ReduceOp::sum,
                              {.label = "grad_norm", .traffic = TrafficClass::scalar});
}

std::vector<Mutant> mutants() {
  std::vector<Mutant> all;
  const auto drop_sum = [&](const char* scenario, const char* label) {
    all.push_back({scenario, std::string("no sum of ") + label, dropped_reduction(label)});
  };
  const auto drop_gather = [&](const char* scenario, const char* label) {
    all.push_back({scenario, std::string("no gather of ") + label, dropped_gather(label)});
  };
  for (const char* scenario : {"llama-tp2", "gpt-tp4", "gpt-tp2-pp2-dp2-zero1"}) {
    for (const char* label : {"row output", "column input gradient", "largest logit",
                              "target logit", "sum of exponentials"}) {
      drop_sum(scenario, label);
    }
  }
  for (const char* scenario : {"llama-sp2", "gpt-sp2", "llama-tp2-pp2-dp2-sp"}) {
    for (const char* label :
         {"row output", "column input gradient", "sequence-parallel gradients"}) {
      drop_sum(scenario, label);
    }
    for (const char* label : {"column input", "column input again", "row output gradient"}) {
      drop_gather(scenario, label);
    }
  }
  for (const char* scenario :
       {"gpt-pp4-gpipe", "gpt-pp4-1f1b", "gpt-pp3-zb-h1", "gpt-pp2-fsdp4", "gpt-hsdp-tp2-pp2"}) {
    drop_sum(scenario, "tied embedding gradient");
  }
  for (const char* scenario :
       {"llama-sp2", "gpt-tp4", "gpt-pp4-1f1b", "gpt-tp2-pp2-dp2-zero1", "gpt-hsdp-tp2-pp2"}) {
    all.push_back({scenario, "clipping by the norm of one rank's part", local_norm()});
    all.push_back({scenario, "a norm that counts twice", only("grad_norm", count_twice)});
  }
  for (const char* scenario : {"llama-tp2", "llama-sp2", "gpt-tp2-dp4"}) {
    all.push_back({scenario, "tensor-parallel ranks in reverse", reversed_group("tp")});
    all.push_back({scenario, "sums that are maxima", reduced_by_max()});
    all.push_back({scenario, "one part counted twice", own_part_twice()});
  }
  return all;
}

}  // namespace

TEST_CASE("P56: every mutant of tensor, sequence and pipeline parallelism is found") {
  int found = 0;
  const std::vector<Mutant> all = mutants();
  for (const Mutant& mutant : all) {
    const Scenario scenario = load_scenario(
        std::string("scenarios/verify-") + mutant.scenario + ".json", {"execution.steps=1"});
    const Result result = run_scenario(scenario, {.wrap_world = plant(mutant.faults)}).result;
    INFO(mutant.scenario << ": " << mutant.bug);
    CHECK(result.exit_code == 1);
    REQUIRE(result.find("oracle.passed") != nullptr);
    CHECK(*result.number("oracle.passed") == 0.0);
    if (result.exit_code == 1) ++found;
  }
  std::cout << "P56: " << found << " of " << all.size() << " mutants found\n";
}

}  // namespace shardsim::test
