#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/model_faults.hpp"
#include "tests/mutants/mutant_lists.hpp"
#include "tests/mutants/score.hpp"
#include "tests/strategies/training_case.hpp"

// P56 for context parallelism: what ranks send each other of keys, values and their gradients, and
// the sum of gradients over all that see parts of the same samples.
namespace shardsim::test {
namespace {

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
  for (const Mutant& mutant : context_parallel_mutants()) {
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
