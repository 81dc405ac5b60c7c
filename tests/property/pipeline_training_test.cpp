#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/stage_model.hpp"
#include "strategies/pipeline/stage_split.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/sample.hpp"
#include "tests/strategies/pipeline_fixture.hpp"
#include "tests/strategies/training_case.hpp"

// A pipeline trains the model of one device under every schedule, with real numbers.
namespace shardsim::test {

namespace {

TrainingCase case_of(const std::string& name) {
  TrainingCase c;
  c.name = name;
  c.model = small_model(name);
  // Embedding or first layer, blocks and head: two for each of up to eight stages, and odd ones.
  c.model.num_layers = 9;
  c.optimizer = "adamw";
  c.optimizer_options.epsilon = 1e-5;  // See scenarios/verify-gpt-zero2.json.
  c.training.steps = 2;
  return c;
}

// All schedules, for a few shapes that differ in what is first, last, odd or missing.
std::vector<TrainingCase> pipelined(const TrainingCase& alone) {
  std::vector<TrainingCase> cases;
  for (const std::string_view name : schedule_names()) {
    for (const int ranks : {2, 3, 4}) {
      for (const int chunks : {1, 2}) {
        const int microbatches = static_cast<int>(alone.training.num_microbatches);
        if (!is_legal(name, {ranks, chunks, microbatches})) continue;
        TrainingCase c = alone;
        c.mesh.pp = ranks;
        c.schedule = name;
        c.num_chunks = chunks;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

void require_equal_to(const std::vector<StepRecord>& reference, const TrainingCase& c,
                      const TrainingResult& result) {
  for (std::size_t step = 0; step < reference.size(); ++step) {
    const WorstError worst = worst_error(merge(c, result, step), reference[step]);
    INFO(describe(c) << ", step " << step << ": " << worst.where);
    REQUIRE(worst.value <= kOracleBound);
  }
}

void require_same_bits(const TrainingCase& c, const TrainingResult& result,
                       const TrainingCase& other_case, const TrainingResult& other) {
  for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
    INFO(describe(c) << ", step " << step);
    REQUIRE(first_difference(merge(c, result, step), merge(other_case, other, step)).empty());
  }
}

// The parameter that the first and the last module share.
std::size_t tied_parameter(const Model& model) {
  const auto first = model.parameters_of(0);
  for (const int parameter : model.parameters_of(model.num_modules() - 1)) {
    if (std::find(first.begin(), first.end(), parameter) != first.end()) {
      return static_cast<std::size_t>(parameter);
    }
  }
  throw std::logic_error("nothing is tied");
}

}  // namespace

// All schedules run the microbatches of a stage in their order, backwards and, where it is split,
// in W, too. So does one device, and so sums of gradients have one order.
TEST_CASE("P38: every schedule's gradients are those of one device, in every bit") {
  int count = 0;
  for (const char* name : {"mlp", "untied gpt2", "llama", "llama dropping"}) {
    for (const int microbatches : {1, 4, 7}) {
      TrainingCase alone = case_of(name);
      alone.training.num_microbatches = microbatches;
      alone.training.micro_batch_size = 2;
      alone.training.ignore_fraction = 0.2;
      const std::vector<StepRecord> reference = train_alone(alone);
      const TrainingResult one_rank = run(alone);
      require_equal_to(reference, alone, one_rank);
      for (const TrainingCase& c : pipelined(alone)) {
        ++count;
        if (!in_sample(describe(c), 6)) continue;
        const TrainingResult result = run(c);
        require_equal_to(reference, c, result);
        require_same_bits(c, result, alone, one_rank);
      }
    }
  }
  std::cout << "P38: " << count
            << " pipelines, of which the sample equals one device in every bit\n";
  // For each model and M = 1, 4 and 7: gpipe, 1f1b, zb_h1 and, with one chunk and two, looped BFS
  // on 2, 3 and 4 ranks each; interleaved and combined, with one chunk and two, on 2 and 4 with
  // M = 4; zb_h2,
  // zb_v, v_half and v_min on 2 with M = 4, and on 2, 3 and 4 with M = 7; dualpipe_v on 2 with
  // M = 4, and on 2 and 3 with M = 7.
  CHECK(count == 4 * (3 * (9 + 6) + 2 * 4 + 4 * (1 + 3) + 3));
}

// A tied weight's two copies sum their gradients first on their own, so one device, which adds
// both in turn, rounds differently.
TEST_CASE("P40: tied embeddings equal the single copy, and their copies each other in every bit") {
  for (const char* name : {"gpt2", "tied llama"}) {
    TrainingCase alone = case_of(name);
    alone.training.steps = 4;
    alone.training.num_microbatches = 7;
    const std::size_t tied = tied_parameter(*make_model(alone.model));
    const std::vector<StepRecord> reference = train_alone(alone);
    const std::vector<TrainingCase> cases = pipelined(alone);
    const TrainingResult first = run(cases.front());
    for (const TrainingCase& c : cases) {
      const TrainingResult result = run(c);
      require_equal_to(reference, c, result);
      if (is_v_shaped(c.schedule)) {  // One rank has both: a single copy.
        CHECK(result.traffic.at("embedding").payload_sent == 0);
        continue;
      }
      // Whatever the schedule and the number of stages.
      require_same_bits(c, result, cases.front(), first);
      for (std::size_t step = 0; step < reference.size(); ++step) {
        for (const auto& [kind, values] : result.ranks.front().steps[step].values) {
          INFO(describe(c) << ", step " << step << ", " << kind);
          REQUIRE(values[tied] == result.ranks.back().steps[step].values.at(kind)[tied]);
        }
      }
      // The sum of the gradients, of which each of two ranks sends as much as there is.
      const std::int64_t bytes = 2 * 8 * alone.model.vocab_size * alone.model.hidden_size;
      REQUIRE(result.traffic.at("embedding").payload_sent == alone.training.steps * bytes);
    }
  }
}

TEST_CASE("P40: nothing is sent for tied embeddings where one rank has both copies") {
  TrainingCase c = case_of("gpt2");
  c.schedule = "looped_bfs";
  c.num_chunks = 4;
  c.training.num_microbatches = 3;
  const TrainingResult result = run(c);
  require_equal_to(train_alone(c), c, result);
  CHECK(result.sent_by_rank == std::vector<std::int64_t>{0});
  // With V placement, rank 0 has the first and the last stage at any number of ranks.
  c.model.num_layers = 10;
  const std::unique_ptr<Model> whole = make_model(c.model);
  for (int ranks = 2; ranks <= 5; ++ranks) {
    const PipelineSchedule schedule = v_shaped_gpipe(ranks, 1);
    const std::vector<ModuleRange> ranges = split_modules(*whole, schedule.num_stages(), {});
    const auto range = [&](int chunk) {
      return ranges[static_cast<std::size_t>(schedule.stage_of(0, chunk))];
    };
    const StageModel stage(*whole, {range(0), range(1)});
    int tied = 0;
    for (const ParameterSpec& spec : stage.parameters()) tied += spec.tied ? 1 : 0;
    CHECK(tied == 0);
    // Loop placement has them apart.
    const StageModel first(*whole, {range(0)});
    CHECK(std::count_if(first.parameters().begin(), first.parameters().end(),
                        [](const ParameterSpec& spec) { return spec.tied; }) == 1);
  }
}

TEST_CASE("a mesh that has no edges for the placement of a schedule is refused by name") {
  const auto optimizer = make_optimizer("sgd", {});
  const auto refusal = [&](const char* schedule, bool v_edges) {
    ParallelOptions options = options_of(case_of("gpt2"));
    options.num_chunks = 2;
    options.mesh.pp = 2;
    options.training.num_microbatches = 4;
    options.schedule = schedule;
    const ParallelPlan plan(options, *optimizer);
    MeshShape shape = plan.options().mesh;
    shape.v_placement = v_edges;
    FiberWorld world({.cluster = test_cluster(2), .has_data = false});
    try {
      world.run([&](Runtime& runtime, Communicator& everyone) {
        Mesh mesh(everyone, shape);
        TrainingObserver observer;
        plan.train_rank(runtime, mesh, observer);
      });
    } catch (const Error& error) {
      return error.code();
    }
    return std::string("none");
  };
  CHECK(refusal("zb_v", true) == "none");
  CHECK(refusal("looped_bfs", false) == "none");
  CHECK(refusal("zb_v", false) == "E0785");
  CHECK(refusal("looped_bfs", true) == "E0785");
}

// A V of one's own, ZeRO and tied embeddings at once: the bucket of the tied weight is reduced when
// the chunk going down has ended, and with stage 3 it is gathered for both chunks.
TEST_CASE("P38, P40: V placement under every ZeRO stage trains what one device does") {
  int count = 0;
  for (const char* name : {"gpt2", "llama"}) {
    for (const char* schedule : {"zb_v", "v_half", "v_min", "dualpipe_v", "own"}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const bool every_microbatch : {false, true}) {
          if (stage < 2 && every_microbatch) continue;
          TrainingCase c = case_of(name);
          c.zero_stage = stage;
          c.mesh = {.dp_shard = 2, .dp_replicate = stage == 1 ? 2 : 1, .pp = 3};
          c.num_chunks = 2;
          c.training.num_microbatches = 6;
          c.sync.reduce_every_microbatch = every_microbatch;
          if (std::string(schedule) == "own") {
            c.own_schedule = v_shaped_gpipe(3, 6);
          } else {
            c.schedule = schedule;
          }
          const TrainingResult result = run(c);
          require_equal_to(train_alone(c), c, result);
          CHECK(result.traffic.at("embedding").payload_sent == 0);
          ++count;
        }
      }
    }
  }
  CHECK(count == 2 * 5 * 6);
}

TEST_CASE("P38: V placement beside tensor parallelism, recomputation, dropout and clipping") {
  for (const char* name : {"gpt2", "llama"}) {
    for (const char* schedule : {"zb_v", "v_half", "v_min", "dualpipe_v"}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        TrainingCase c = case_of(name);
        c.model.hidden_dropout = 0.125;
        c.model.recompute = recompute;
        c.model.seq_len = 4;
        c.model.sequence_parallel = recompute != Recompute::selective;
        c.mesh = {.dp_shard = 2, .tp = 2, .pp = 2};
        c.zero_stage = 1;
        c.num_chunks = 2;
        c.schedule = schedule;
        c.training.num_microbatches = 4;
        c.training.ignore_fraction = 0.2;
        c.training.max_grad_norm = 0.1;  // Below the norms of these models: every step is clipped.
        require_equal_to(train_alone(c), c, run(c));
      }
    }
  }
}

TEST_CASE("P42: V placement runs with stages of any number of layers") {
  for (const char* schedule : {"zb_v", "v_half", "v_min", "dualpipe_v"}) {
    TrainingCase c = case_of("gpt2");
    c.mesh.pp = 2;
    c.num_chunks = 2;
    c.schedule = schedule;
    c.stage_split.layers = {0, 4, 2, 3};
    c.training.num_microbatches = 5;
    require_equal_to(train_alone(c), c, run(c));
  }
}

TEST_CASE("a model that computes in another dtype than its weights have is refused by name") {
  ParallelOptions options = options_of(case_of("gpt2"));
  options.sync.weight_dtype = DType::bf16;
  const auto optimizer = make_optimizer("sgd", {});
  try {
    const ParallelPlan plan(options, *optimizer);
    FAIL("stages would disagree about the size of messages");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E0787");
    CHECK(std::string(error.what()).find("fp64") != std::string::npos);
    CHECK(std::string(error.what()).find("bf16") != std::string::npos);
  }
}

}  // namespace shardsim::test
