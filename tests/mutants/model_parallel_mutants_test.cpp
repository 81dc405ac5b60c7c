#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/pipeline/schedule_text.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/message_faults.hpp"
#include "tests/mutants/mutant_lists.hpp"
#include "tests/mutants/score.hpp"
#include "tests/mutants/warm_up.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// P56 for tensor, sequence and pipeline parallelism: one communication at a time is left out or
// bent. Every mutant must be found by who is to find it.
namespace shardsim::test {
namespace {

// One more or one less forward before the first backward, on each rank in turn.
void count_warm_ups() {
  for (const char* name : {"1f1b", "interleaved_1f1b", "zb_h1"}) {
    const int chunks = name == std::string("interleaved_1f1b") ? 2 : 1;
    for (int ranks = 2; ranks <= 4; ++ranks) {
      const PipelineSchedule schedule = make_schedule(name, {ranks, chunks, 3 * ranks});
      for (int rank = 0; rank < ranks; ++rank) {
        REQUIRE(with_warm_up(schedule, rank, 0) == schedule);
        for (const int change : {-1, +1}) {
          const PipelineSchedule mutated = with_warm_up(schedule, rank, change);
          INFO("warm-up " << change << " on rank " << rank << "\n" << to_text(mutated));
          // One less on the last rank is a backward before its forward. All others are correct
          // schedules, as the next test shows: only what is measured of them tells.
          const bool is_wrong = change < 0 && rank == ranks - 1;
          count_mutant(is_wrong ? Detector::validator : Detector::in_flight,
                       finder_of(mutated, schedule));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("P56: every mutant of tensor, sequence and pipeline parallelism is found") {
  std::vector<Mutant> all = model_parallel_mutants();
  for (Mutant& mutant : message_mutants()) all.push_back(std::move(mutant));
  for (const Mutant& mutant : all) {
    const Result result = result_of(mutant);
    INFO(mutant.scenario << ": " << mutant.bug);
    if (result.diagnosis) UNSCOPED_INFO(result.diagnosis->to_text());
    count_mutant(mutant.found_by, finder_in(result));
  }
  count_warm_ups();
}

TEST_CASE("P56: a warm-up off by one may train as before, and then the oracle cannot find it") {
  for (const char* name : {"gpt-pp4-1f1b", "llama-pp2-interleaved", "gpt-pp3-zb-h1"}) {
    const Scenario scenario = load_scenario(std::string("scenarios/verify-") + name + ".json");
    for (const int change : {-1, +1}) {
      const auto edit = [&](PipelineSchedule& schedule) {
        const PipelineSchedule mutated = with_warm_up(schedule, 0, change);
        CHECK(mutated != schedule);
        schedule = mutated;
      };
      const Result result = run_scenario(scenario, {.edit_schedule = edit}).result;
      INFO(name << ", warm-up " << change << " on rank 0");
      CHECK(result.exit_code == 0);
      CHECK(result.number("oracle.passed") == 1.0);
    }
  }
}

// At this scale one gradient overflows, in one shard of one tensor-parallel rank of one stage:
// gradients reach fp16's largest number between 1.00e6 and 1.01e6, and those of a second shard at
// 1.13e6. Ranks that skip then no longer do what the others do, which is found at once.
TEST_CASE("P56: overflows that are not made known over one axis are found") {
  const Scenario scenario = load_scenario("scenarios/verify-llama-tp2-pp2-dp2-sp.json",
                                          {"training.precision=fp16", "training.optimizer=sgd",
                                           "training.loss_scale=1070000", "execution.steps=2"});
  const Result right = run_scenario(scenario).result;
  CHECK(right.exit_code == 0);
  CHECK(*right.number("loss_scaling.skipped_steps") == 1);
  // Within a tensor-parallel group the next call is another one; over the other axes ranks go on to
  // different groups.
  const std::map<std::string, Detector> finders = {
      {"dp_shard", Detector::deadlock}, {"tp", Detector::mismatch}, {"pp", Detector::deadlock}};
  for (const auto& [axis, finder] : finders) {
    const Result result =
        run_scenario(scenario, {.wrap_world = plant(overflow_unknown_over(axis))}).result;
    INFO(axis);
    CHECK(result.exit_code == 4);
    REQUIRE(result.diagnosis);
    INFO(result.diagnosis->to_text());
    count_mutant(finder, finder_in(result));
  }
}

}  // namespace shardsim::test
