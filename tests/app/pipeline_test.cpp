#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// Pipelines through the whole command: wrong schedules are explained, and what stages send each
// other is what the formulas say.
namespace shardsim::test {
namespace {

struct Piped {
  const char* scenario;
  int boundaries;  // Between stages on different ranks: p V - 1; 2 (p - 1) for V placement.
  bool v_placement = false;
};

const std::vector<Piped> kPiped = {
    {"gpt-pp4-gpipe", 3},        {"gpt-pp4-1f1b", 3},           {"llama-pp2-interleaved", 3},
    {"llama-pp2-looped-bfs", 5}, {"gpt-pp3-zb-h1", 2},          {"gpt-pp3-zb-h2", 2},
    {"gpt-pp4-zb-v", 6, true},   {"llama-pp3-v-half", 4, true}, {"gpt-pp4-v-min", 6, true}};

// The last backward of a rank in place of the forward of its microbatch, and the other way round.
// Returns the cell where that backward now stands.
int swap_forward_and_backward(PipelineSchedule& schedule, int rank) {
  std::vector<Action>& cells = schedule.actions[static_cast<std::size_t>(rank)];
  const auto last = std::find_if(cells.rbegin(), cells.rend(),
                                 [](Action cell) { return makes_input_gradient(cell.kind); });
  const auto own = std::find(cells.begin(), cells.end(),
                             make_action(ActionKind::forward, last->chunk, last->microbatch));
  std::iter_swap(last, own);
  return static_cast<int>(own - cells.begin());
}

// Rank 0 wants the first gradient before it has sent the second activation, which the last rank
// takes before it sends any gradient.
void want_gradient_too_early(PipelineSchedule& schedule) {
  std::vector<Action>& cells = schedule.actions.front();
  std::iter_swap(cells.begin() + 1, std::find_if(cells.begin(), cells.end(), [](Action cell) {
                   return makes_input_gradient(cell.kind);
                 }));
}

}  // namespace

TEST_CASE("a swapped action ends with exit code 4 and names row and cell, for every schedule") {
  for (const Piped& piped : kPiped) {
    for (const int rank : {0, 1}) {
      RunArguments arguments;
      arguments.file = std::string("scenarios/verify-") + piped.scenario + ".json";
      int cell = -1;
      const RunHooks hooks{.edit_schedule = [&](PipelineSchedule& schedule) {
        cell = swap_forward_and_backward(schedule, rank);
      }};
      const Printed text = shardsim_with(arguments, hooks);
      INFO(text.out);
      CHECK(text.exit_code == 4);
      CHECK(contains(text.out, "SCHEDULE_WRONG"));
      CHECK(cell > 0);
      arguments.json = true;
      const Printed json = shardsim_with(arguments, hooks);
      CHECK(json.exit_code == 4);
      const nlohmann::json diagnosis = nlohmann::json::parse(json.out)["diagnosis"];
      CHECK(diagnosis["code"] == "SCHEDULE_WRONG");
      CHECK(contains(diagnosis.dump(),
                     "rank " + std::to_string(rank) + ", cell " + std::to_string(cell) + ": "));
    }
  }
}

TEST_CASE("a schedule that waits in a circle ends with exit code 4 and every cell of the circle") {
  RunArguments arguments;
  arguments.file = "scenarios/verify-gpt-pp4-gpipe.json";
  const RunHooks hooks{.edit_schedule = want_gradient_too_early};
  const Printed text = shardsim_with(arguments, hooks);
  INFO(text.out);
  CHECK(text.exit_code == 4);
  CHECK(contains(text.out, "SCHEDULE_DEADLOCK"));
  arguments.json = true;
  const Printed json = shardsim_with(arguments, hooks);
  CHECK(json.exit_code == 4);
  const nlohmann::json diagnosis = nlohmann::json::parse(json.out)["diagnosis"];
  CHECK(diagnosis["code"] == "SCHEDULE_DEADLOCK");
  CHECK(contains(diagnosis.dump(), "rank 0, cell 1 (0B0) waits for rank 1"));
}

TEST_CASE("the layers of a scenario's stages are what its ranks run") {
  const auto modules = [](const std::vector<std::string>& overrides) {
    const Experiment experiment =
        compile(load_scenario("scenarios/verify-gpt-uneven-stages.json", overrides));
    std::vector<std::vector<int>> counts;  // By pipeline rank and chunk.
    for (int rank = 0; rank < 2; ++rank) {
      const ModelPart part = experiment.plan().part({.pp = rank});
      counts.push_back(
          {part.model->modules_of_chunk(0).count, part.model->modules_of_chunk(1).count});
    }
    return counts;
  };
  using Counts = std::vector<std::vector<int>>;
  // Stages 0 and 2 are on the first rank, 1 and 3 on the second; embedding and head are a module.
  CHECK(modules({}) == Counts{{1 + 1, 2}, {3, 0 + 1}});
  CHECK(modules({"parallelism.stage_layers=[0,1,4,1]"}) == Counts{{1, 4}, {1, 2}});
  CHECK(modules({"parallelism.stage_layers=auto"}) == Counts{{2, 2}, {2, 2}});
  const std::string split = "parallelism.account_for_embedding_in_pipeline_split=true";
  CHECK(modules({"parallelism.stage_layers=auto", split}) == Counts{{2, 2}, {2, 2}});
}

TEST_CASE("a result says how its stages were cut") {
  const auto says = [](const std::string& text) {
    const Experiment experiment = compile(load_scenario("scenarios/verify-gpt-uneven-stages.json",
                                                        {"parallelism.stage_layers=" + text}));
    std::string found;
    for (const Assumption& each : experiment.assumptions()) found += each.text + "\n";
    return found;
  };
  CHECK(contains(says("[1,3,2,0]"), "in order: 1 x 1, 1 x 3, 1 x 2, 1 x 0\n"));
  CHECK(contains(says("auto"), "in order: 1 x 1, 2 x 2, 1 x 1\n"));
}

TEST_CASE("a schedule that is only written down again changes nothing") {
  const Scenario scenario = load_scenario("scenarios/verify-gpt-pp4-1f1b.json");
  const Result plain = run_scenario(scenario).result;
  const Result edited = run_scenario(scenario, {.edit_schedule = [](PipelineSchedule&) {}}).result;
  CHECK(edited.exit_code == 0);
  CHECK(*edited.find("trace_hash") == *plain.find("trace_hash"));
}

TEST_CASE("the conservation check counts every link that payload has travelled on, off rings too") {
  for (const Piped& piped : {kPiped[0], kPiped[1], kPiped[4]}) {  // One chunk per rank.
    const Scenario scenario =
        load_scenario(std::string("scenarios/verify-") + piped.scenario + ".json");
    const Result result = run_scenario(scenario).result;
    const auto check = std::find_if(result.checks.begin(), result.checks.end(),
                                    [](const Check& one) { return one.name == "conservation"; });
    REQUIRE(check != result.checks.end());
    CHECK(check->passed);
    // Each boundary both ways, and the ring of two on which the tied embeddings are summed.
    const int links = 2 * piped.boundaries + (scenario.model.tied_embeddings ? 2 : 0);
    CHECK(contains(check->detail, "the two ends of each of " + std::to_string(links) + " links"));
  }
}

TEST_CASE("schedules of model chunks run with a single one, which makes looped bfs gpipe") {
  const auto run = [](const char* schedule) {
    const Scenario scenario = load_scenario(
        "scenarios/verify-llama-pp2-looped-bfs.json",
        {"parallelism.vpp=1", "training.global_batch_size=4", "training.num_microbatches=4",
         std::string("parallelism.schedule=") + schedule});
    const Result result = run_scenario(scenario).result;
    CHECK(result.exit_code == 0);  // The oracle's verdict, too.
    return *result.find("trace_hash");
  };
  CHECK(run("looped_bfs") == run("gpipe"));
  CHECK(run("interleaved_1f1b") != run("1f1b"));  // More forwards come first.
}

TEST_CASE("buffered sends shorten a step where slow links let senders wait for receivers") {
  const auto step_seconds = [](const std::string& schedule, bool buffered) {
    const Scenario scenario =
        load_scenario("scenarios/verify-gpt-pp4-1f1b.json",
                      {"execution.tensors=meta", "system.intra_node.bandwidth_gb_per_s=0.01",
                       "parallelism.schedule=" + schedule,
                       std::string("execution.buffered_sends=") + (buffered ? "true" : "false")});
    CHECK(scenario.warnings.empty());
    return *run_scenario(scenario).result.number("step_time_s");
  };
  CHECK(step_seconds("1f1b", true) < step_seconds("1f1b", false));
  CHECK(step_seconds("zb_h1", true) < step_seconds("zb_h1", false));
}

TEST_CASE("an edited schedule of another shape is refused by name") {
  const auto refusal = [](const char* file, const std::function<void(PipelineSchedule&)>& edit) {
    try {
      (void)run_scenario(load_scenario(file), {.edit_schedule = edit});
    } catch (const UsageError& error) {
      return error.code();
    }
    return std::string("none");
  };
  // A whole schedule of that shape in place of the run's own.
  const auto reshaped = [](const char* name, const PipelineShape& shape) {
    return [=](PipelineSchedule& schedule) { schedule = make_schedule(name, shape); };
  };
  const char* const plain = "scenarios/verify-gpt-pp4-1f1b.json";
  const PipelineShape own = shape_of(compile(load_scenario(plain)).options());
  const auto [p, v, m] = own;
  CHECK(refusal(plain, reshaped("1f1b", own)) == "none");
  CHECK(refusal(plain, reshaped("1f1b", {1, v, m})) == "E0789");
  CHECK(refusal(plain, reshaped("1f1b", {p + 1, v, m})) == "E0789");
  CHECK(refusal(plain, reshaped("looped_bfs", {p, 2, m})) == "E0789");
  CHECK(refusal(plain, reshaped("1f1b", {p, v, m - 1})) == "E0789");
  CHECK(refusal(plain, reshaped("1f1b", {p, v, m + 1})) == "E0789");
  CHECK(refusal("scenarios/verify-llama-pp2-interleaved.json", reshaped("1f1b", {2, 1, m})) ==
        "E0789");
  // With its messages in it, it runs with them.
  CHECK(refusal(plain, [](PipelineSchedule& schedule) { schedule = lower(schedule); }) == "none");
}

TEST_CASE(
    "P41: stages send 2 M b s h elements over every boundary, and tied embeddings their sum") {
  std::vector<Piped> all = kPiped;
  all.push_back({"llama-pp2-dp2-dualpipe-v", 2, true});
  for (const Piped& piped : all) {
    const Scenario scenario =
        load_scenario(std::string("scenarios/verify-") + piped.scenario + ".json");
    const ModelSpec& model = scenario.model;
    const TrainingSpec& training = scenario.training;
    const std::int64_t message = training.micro_batch_size * model.seq_len * model.hidden_size;
    std::int64_t elements = 2 * training.num_microbatches * message * piped.boundaries;
    // An all_reduce of two ranks sends each half of the table twice.
    // P40: with V placement they are one weight on one rank.
    if (model.tied_embeddings && !piped.v_placement) {
      elements += 2 * model.vocab_size * model.hidden_size;
    }
    elements *= scenario.parallelism.data_parallel_size();
    INFO(piped.scenario);
    CHECK(*run_scenario(scenario).result.number("comm.bytes_sent.by_axis.pp") ==
          static_cast<double>(8 * elements));
  }
}

}  // namespace shardsim::test
