#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/app/assumptions.hpp"
#include "sim/app/plan_of.hpp"
#include "sim/app/run.hpp"

#include "tests/app/command_fixture.hpp"

// Pipelines through the whole command: wrong schedules are explained, and what stages send each
// other is what the formulas say.
namespace shardsim::test {
namespace {

struct Piped {
  const char* scenario;
  int boundaries;  // Between stages: p V - 1.
};

const std::vector<Piped> kPiped = {{"gpt-pp4-gpipe", 3},
                                   {"gpt-pp4-1f1b", 3},
                                   {"llama-pp2-interleaved", 3},
                                   {"llama-pp2-looped-bfs", 5},
                                   {"gpt-pp3-zb-h1", 2}};

// The first backward of rank 0 moved before the first forward of its microbatch.
void swap_forward_and_backward(PipelineSchedule& schedule) {
  std::vector<Action>& cells = schedule.actions.front();
  for (Action& cell : cells) {
    if (!makes_input_gradient(cell.kind)) continue;
    for (Action& other : cells) {
      const bool is_own = other.kind == ActionKind::forward && other.chunk == cell.chunk &&
                          other.microbatch == cell.microbatch;
      if (is_own) return std::swap(cell, other);
    }
  }
}

}  // namespace

TEST_CASE("a swapped action ends with exit code 4 and names row and cell, for every schedule") {
  for (const Piped& piped : kPiped) {
    RunArguments arguments;
    arguments.file = std::string("scenarios/verify-") + piped.scenario + ".json";
    const Printed text = shardsim_with(arguments, {.edit_schedule = swap_forward_and_backward});
    INFO(text.out);
    CHECK(text.exit_code == 4);
    CHECK(contains(text.out, "SCHEDULE_WRONG"));
    CHECK(contains(text.out, "rank 0"));
    CHECK(contains(text.out, "cell "));
    arguments.json = true;
    const Printed json = shardsim_with(arguments, {.edit_schedule = swap_forward_and_backward});
    CHECK(json.exit_code == 4);
    CHECK(nlohmann::json::parse(json.out)["diagnosis"]["code"] == "SCHEDULE_WRONG");
  }
}

TEST_CASE("the layers of a scenario's stages are what its ranks run") {
  const auto modules = [](const std::vector<std::string>& overrides) {
    const SharedPlan plan(load_scenario("scenarios/verify-gpt-uneven-stages.json", overrides));
    std::vector<std::vector<int>> counts;  // By pipeline rank and chunk.
    for (int rank = 0; rank < 2; ++rank) {
      const ModelPart part = plan.parallel.part({.pp = rank});
      counts.push_back(
          {part.model->modules_of_chunk(0).count, part.model->modules_of_chunk(1).count});
    }
    return counts;
  };
  using Counts = std::vector<std::vector<int>>;
  // Stages 0 and 2 are on the first rank, 1 and 3 on the second; embedding and head are a module.
  CHECK(modules({}) == Counts{{1 + 1, 2}, {3, 0 + 1}});
  CHECK(modules({"parallelism.stage_layers=[0,1,4,1]"}) == Counts{{1, 4}, {1, 2}});
  CHECK(modules({"parallelism.stage_layers=auto"}) == Counts{{3, 1}, {2, 2}});
  const std::string split = "parallelism.account_for_embedding_in_pipeline_split=true";
  CHECK(modules({"parallelism.stage_layers=auto", split}) == Counts{{2, 2}, {2, 2}});
}

TEST_CASE("a result says how its stages were cut") {
  const auto says = [](const std::string& text) {
    const Scenario scenario = load_scenario("scenarios/verify-gpt-uneven-stages.json",
                                            {"parallelism.stage_layers=" + text});
    std::string found;
    for (const Assumption& assumption : assumptions_of(scenario)) found += assumption.text + "\n";
    return found;
  };
  CHECK(contains(says("[1,3,2,0]"), "in order: 1 x 1, 1 x 3, 1 x 2, 1 x 0\n"));
  CHECK(contains(says("auto"), "in order: 2 x 2, 2 x 1\n"));
}

TEST_CASE("a schedule that is only written down again changes nothing") {
  const Scenario scenario = load_scenario("scenarios/verify-gpt-pp4-1f1b.json");
  const Result plain = run_scenario(scenario).result;
  const Result edited = run_scenario(scenario, {.edit_schedule = [](PipelineSchedule&) {}}).result;
  CHECK(edited.exit_code == 0);
  CHECK(*edited.find("trace_hash") == *plain.find("trace_hash"));
}

TEST_CASE(
    "P41: stages send 2 M b s h elements over every boundary, and tied embeddings their sum") {
  for (const Piped& piped : kPiped) {
    const Scenario scenario =
        load_scenario(std::string("scenarios/verify-") + piped.scenario + ".json");
    const ModelSpec& model = scenario.model;
    const TrainingSpec& training = scenario.training;
    const std::int64_t message = training.micro_batch_size * model.seq_len * model.hidden_size;
    std::int64_t elements = 2 * training.num_microbatches * message * piped.boundaries;
    // An all_reduce of two ranks sends each half of the table twice.
    if (model.tied_embeddings) elements += 2 * model.vocab_size * model.hidden_size;
    INFO(piped.scenario);
    CHECK(*run_scenario(scenario).result.number("comm.bytes_sent.by_axis.pp") ==
          static_cast<double>(8 * elements));
  }
}

}  // namespace shardsim::test
