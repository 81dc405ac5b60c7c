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

// Three ranks share samples of a small model of this name.
TrainingCase shared_case(const char* name, ContextAttention form) {
  TrainingCase c;
  c.name = name;
  c.model = small_model(name);
  c.model.seq_len = 12;
  c.model.context_attention = form;
  c.mesh = {.cp = 3};
  return c;
}

// Held against the reference of TrainingCase.
double error_in(const TrainingCase& c) {
  return worst_error(merge(c, run(c), 0), train_alone(c)[0]).value;
}

double error_without(const std::string& operation, TrainingCase c) {
  if (!operation.empty()) {
    c.model_of_rank = [&](const ModelPart& part, int) {
      return without_operation(*part.model, operation);
    };
  }
  return error_in(c);
}

Detector found_by_error(double error) { return error > 1e-9 ? Detector::oracle : Detector::nobody; }

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
  const TrainingCase right = shared_case("llama", ContextAttention::ring);
  CHECK(found_by_error(error_in(right)) == Detector::nobody);
  for (const char* operation : {"attention_merge", "pack_keys_and_values", "attention"}) {
    INFO(operation);
    count_mutant(Detector::oracle, found_by_error(error_without(operation, right)));
  }
}

TEST_CASE("P56: queries that do not grow, or by another position than theirs, are found") {
  for (const ContextAttention form : {ContextAttention::ring, ContextAttention::all_gather}) {
    const TrainingCase right = shared_case("llama with growing queries", form);
    CHECK(found_by_error(error_in(right)) == Detector::nobody);
    for (const char* operation : {"query_temperature", "query_temperature_backward"}) {
      INFO(operation);
      count_mutant(Detector::oracle, found_by_error(error_without(operation, right)));
    }
    // The last rank has the middle of each sample, positions 4 to 7. In runs of 3 positions instead
    // of 2, these have the factors of positions before them.
    TrainingCase wrong = right;
    wrong.model_of_rank = [&](const ModelPart&, int rank) {
      ModelOptions options = right.model;
      options.context_parallel = right.mesh.cp;
      if (rank == right.mesh.cp - 1) options.query_temperature.floor = 3;
      return make_model(options);
    };
    count_mutant(Detector::oracle, found_by_error(error_in(wrong)));
  }
}

}  // namespace shardsim::test
