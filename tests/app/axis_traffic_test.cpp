#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "tests/strategies/sent_elements.hpp"

// The traffic per axis in a result, through the whole command.
namespace shardsim::test {
namespace {

SendingCase formulas_of(const Scenario& scenario) {
  const Experiment experiment = compile(scenario);
  const ParallelOptions& options = experiment.options();
  return {.model = options.model,
          .mesh = options.mesh,
          .stage_layers = scenario.parallelism.stage_layers,
          .zero_stage = options.zero_stage,
          .reduce_every_microbatch = options.sync.reduce_every_microbatch,
          .num_microbatches = scenario.training.num_microbatches,
          .micro_batch_size = scenario.training.micro_batch_size};
}

}  // namespace

TEST_CASE("P18, P31, P41: a result's bytes per axis under tp, pp and dp are the formulas'") {
  for (const char* model : {"model.tied_embeddings=true", "model.tied_embeddings=false"}) {
    for (const char* sequence_parallel : {"true", "false"}) {
      for (const char* stage : {"0", "1", "2", "3"}) {
        for (const char* every_microbatch : {"true", "false"}) {
          // Two tensor-parallel ranks do not divide its 53 tokens of vocabulary.
          std::vector<std::string> overrides = {
              model, "parallelism.stage_layers=[2,1]",
              std::string("parallelism.sequence_parallel=") + sequence_parallel,
              std::string("parallelism.zero_stage=") + stage};
          if (*stage >= '2') {
            overrides.push_back(std::string("parallelism.sync_every_microbatch=") +
                                every_microbatch);
          }
          const Scenario scenario =
              load_scenario("scenarios/verify-gpt-tp2-pp2-dp2-zero1.json", overrides);
          const SendingCase formulas = formulas_of(scenario);
          REQUIRE(formulas.model.vocab_size == 53);
          const SentElements expected = elements_sent_of_any_vocabulary(formulas);
          const SentElements padding = vocabulary_padding_sent(formulas);
          CHECK(padding.total() > 0);
          const Result result = run_scenario(scenario).result;
          INFO(model << ", sequence parallel " << sequence_parallel << ", zero " << stage
                     << ", every microbatch " << every_microbatch);
          constexpr std::int64_t kBytes = 8;  // fp64
          const auto bytes_of = [&](const std::string& name) {
            return *result.number("comm.bytes_sent." + name);
          };
          CHECK(bytes_of("by_axis.tp") == static_cast<double>(kBytes * expected.tp));
          CHECK(bytes_of("by_axis.pp") == static_cast<double>(kBytes * expected.pp));
          CHECK(bytes_of("by_axis.dp") == static_cast<double>(kBytes * expected.dp));
          CHECK(bytes_of("total") == static_cast<double>(kBytes * expected.total()));
          CHECK(bytes_of("padding") == static_cast<double>(kBytes * padding.total()));
        }
      }
    }
  }
}

// Every form alone and beside other axes, recomputation of norms included, which sends nothing.
TEST_CASE("P44: a result's bytes on axis cp are the formulas'") {
  constexpr std::int64_t kBytes = 8;  // fp64
  for (const char* name :
       {"llama-cp2-ring", "gpt-cp4-ring", "gpt-cp3-all-gather", "llama-cp4-all-gather",
        "llama-cp2-ulysses", "gpt-cp4-ulysses", "llama-cp4-two-level", "gpt-cp4-two-level-dp2",
        "llama-cp2-tp2-dp2", "gpt-cp2-tp2-dp2-sp", "llama-cp2-fsdp4", "gpt-cp2-pp2-dp2",
        "llama-cp2-pp2-zb-h1"}) {
    INFO(name);
    const Scenario scenario = load_scenario(std::string("scenarios/verify-") + name + ".json",
                                            {"execution.tensors=meta"});
    const std::int64_t expected = context_elements_sent(formulas_of(scenario));
    CHECK(expected > 0);
    const Result result = run_scenario(scenario).result;
    CHECK(*result.number("comm.bytes_sent.by_axis.cp") == static_cast<double>(kBytes * expected));
  }
}

}  // namespace shardsim::test
