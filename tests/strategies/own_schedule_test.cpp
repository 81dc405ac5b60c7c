#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "tests/strategies/model_fixture.hpp"

// A schedule of the user's own in a plan: it says in which order, and not what is trained.
namespace shardsim::test {

namespace {

ParallelOptions options_with(const PipelineShape& shape) {
  ParallelOptions options;
  options.model = small_model("gpt2");
  options.model.num_layers = 8;
  options.mesh.pp = shape.num_ranks;
  options.num_chunks = shape.num_chunks;
  options.training.num_microbatches = shape.num_microbatches;
  options.sync.weight_dtype = options.model.dtype;
  return options;
}

PipelineSchedule some_schedule(const PipelineShape& shape) {
  return make_schedule(shape.num_chunks > 1 ? "looped_bfs" : "1f1b", shape);
}

// "CODE: message"; what the plan runs, otherwise.
struct Outcome {
  std::string refusal = "none";
  PipelineSchedule runs;
};

Outcome plan_with(ParallelOptions options, const PipelineSchedule& own) {
  options.own_schedule = own;
  const auto optimizer = make_optimizer("sgd", {});
  Outcome outcome;
  try {
    outcome.runs = ParallelPlan(options, *optimizer).schedule();
  } catch (const UsageError& error) {
    CHECK_FALSE(error.fix().empty());
    outcome.refusal = error.code() + ": " + error.what();
  }
  return outcome;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a schedule of one's own runs where it has the options' shape") {
  for (const PipelineShape& shape :
       {PipelineShape{1, 1, 3}, PipelineShape{2, 1, 4}, PipelineShape{2, 2, 4}}) {
    const PipelineSchedule own = some_schedule(shape);
    const Outcome outcome = plan_with(options_with(shape), own);
    CHECK(outcome.refusal == "none");
    CHECK(outcome.runs == lower(own));
  }
}

TEST_CASE("a schedule of one's own of another shape is refused, and each difference is named") {
  struct Case {
    PipelineShape asked;
    PipelineShape own;
    std::vector<std::string> says;
  };
  const std::string ranks = "num_ranks is ";
  const std::string chunks = "num_chunks is ";
  const std::string microbatches = "num_microbatches is ";
  const std::vector<Case> cases = {
      {{2, 1, 4}, {1, 1, 4}, {ranks + "1 where mesh.pp is 2"}},
      {{2, 1, 4}, {3, 1, 4}, {ranks + "3 where mesh.pp is 2"}},
      {{1, 1, 4}, {2, 1, 4}, {ranks + "2 where mesh.pp is 1"}},
      {{2, 1, 4}, {2, 2, 4}, {chunks + "2 where num_chunks is 1"}},
      {{2, 2, 4}, {2, 1, 4}, {chunks + "1 where num_chunks is 2"}},
      {{2, 1, 4}, {2, 1, 3}, {microbatches + "3 where training.num_microbatches is 4"}},
      {{2, 1, 4}, {2, 1, 6}, {microbatches + "6 where training.num_microbatches is 4"}},
      {{2, 1, 4}, {4, 2, 3}, {ranks + "4", chunks + "2", microbatches + "3"}},
  };
  for (const Case& c : cases) {
    const std::string refusal = plan_with(options_with(c.asked), some_schedule(c.own)).refusal;
    INFO(refusal);
    CHECK(refusal.rfind("E0789: ", 0) == 0);
    CHECK(contains(refusal, some_schedule(c.own).name));
    for (const std::string& part : c.says) CHECK(contains(refusal, part));
    // Nothing is said of what agrees.
    CHECK(contains(refusal, ranks) == (c.asked.num_ranks != c.own.num_ranks));
    CHECK(contains(refusal, chunks) == (c.asked.num_chunks != c.own.num_chunks));
    CHECK(contains(refusal, microbatches) == (c.asked.num_microbatches != c.own.num_microbatches));
  }
}

TEST_CASE("a schedule of one's own with messages in it already keeps them") {
  const PipelineShape shape{2, 1, 4};
  PipelineSchedule lowered = lower(some_schedule(shape));
  // Rank 0 sends its first activation one forward later than lower() would.
  std::vector<Action>& cells = lowered.actions[0];
  const auto send =
      std::find(cells.begin(), cells.end(), make_action(ActionKind::send_forward, 0, 0));
  std::rotate(send, send + 1, send + 2);
  const Outcome outcome = plan_with(options_with(shape), lowered);
  CHECK(outcome.refusal == "none");
  CHECK(outcome.runs == lowered);
}

TEST_CASE("a tied weight of two chunks is reduced with the first of them, which must end last") {
  const PipelineShape shape{2, 2, 3};
  ParallelOptions options = options_with(shape);
  options.model.tied_embeddings = true;
  PipelineSchedule own = make_schedule("zb_v", shape);
  CHECK(plan_with(options, own).refusal == "none");
  // The last W of chunk 1 at the very end of rank 0.
  std::vector<Action>& cells = own.actions[0];
  const auto last =
      std::find(cells.begin(), cells.end(), make_action(ActionKind::backward_weight, 1, 2));
  std::rotate(last, last + 1, cells.end());
  const std::string refusal = plan_with(options, own).refusal;
  INFO(refusal);
  CHECK(refusal.rfind("E0761: ", 0) == 0);
  CHECK(contains(refusal, "chunk 0 of rank 0 before chunk 1"));
  options.model.tied_embeddings = false;
  CHECK(plan_with(options, own).refusal == "none");
}

}  // namespace shardsim::test
