#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/program/program.hpp"

#include "scenarios/load.hpp"
#include "sim/run/rank_programs.hpp"

#include "tests/app/folding_fixture.hpp"
#include "tests/drawn_scenario.hpp"
#include "tests/program/written_run.hpp"
#include "tests/property/check_property.hpp"

// The program that is recorded of a rank alone is what the rank does among all others.
namespace shardsim::test {
namespace {

constexpr const char* kAsPlan = "execution.tensors=meta";

// The first difference in words; "" if every rank's two programs are equal.
std::string difference(const BothPrograms& programs) {
  for (std::size_t rank = 0; rank < programs.run.size(); ++rank) {
    const RankProgram& recorded = programs.recorded[rank];
    const RankProgram& run = programs.run[rank];
    if (recorded.steps.empty()) return "nothing is recorded";
    if (!same_program(recorded, run)) return difference_of(recorded, run);
    if (recorded.num_works != run.num_works) return "works";
    if (recorded.num_allocations != run.num_allocations) return "allocations";
  }
  return "";
}

}  // namespace

TEST_CASE("each shipped verification, as a plan, is recorded rank by rank as it runs") {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("verify-") || !name.ends_with(".json")) continue;
    INFO(name);
    const Scenario scenario = load_scenario(entry.path(), {kAsPlan});
    const Experiment experiment = compile(scenario);
    CHECK(difference(both_programs(experiment)) == "");
    ++compared;
  }
  CHECK(compared > 60);
}

TEST_CASE("property: a recorded program is what the rank does in the run") {
  int compared = 0;
  check_property(40, [&] {
    DrawnScenario drawn = draw_verify_scenario();
    drawn.set_word("execution.tensors", "meta");
    std::optional<Experiment> experiment;
    try {
      experiment.emplace(load_scenario_text(drawn.text(), "drawn.json"));
      [[maybe_unused]] const ParallelPlan& plan = experiment->plan();
    } catch (const Error&) {
      return;  // Its fields do not fit together.
    }
    RC_ASSERT(difference(both_programs(*experiment)) == "");
    ++compared;
  });
  CHECK(compared >= 20);
}

TEST_CASE("ranks that do too many different things are not recorded") {
  const Experiment experiment =
      compile(load_scenario_text(small_plan("llama"), "test.json", {"parallelism.pp=4"}));
  const RankRecording whole = record_ranks(experiment, {}, nullptr);
  REQUIRE(whole.programs);
  std::size_t steps = 0;
  for (const RankProgram& program : whole.programs->programs) steps += program.steps.size();
  CHECK(record_ranks(experiment, {}, nullptr, steps).programs);
  const RankRecording less = record_ranks(experiment, {}, nullptr, steps - 1);
  CHECK_FALSE(less.programs);
  CHECK(less.obstacle == "too many ranks do different things to keep what each of them does");
}

TEST_CASE("whoever waits for a long recording may end it") {
  struct Ended {};
  const auto recorded = [](const char* batch) {
    RunHooks hooks;
    hooks.on_progress = [calls = 0]() mutable {
      if (++calls == 12) throw Ended();
    };
    const Experiment experiment = compile(load_scenario_text(
        small_plan("llama"), "test.json",
        {"training.micro_batch_size=1", std::string("training.global_batch_size=") + batch}));
    return record_ranks(experiment, hooks, nullptr).programs.has_value();
  };
  CHECK(recorded("16"));
  CHECK_THROWS_AS(recorded("65536"), Ended);
}

TEST_CASE("ranks that fold have equal programs, and stages have programs of their own") {
  const std::string text = small_plan("llama");
  for (const char* zero : {"0", "1", "3"}) {
    const Experiment experiment = compile(load_scenario_text(
        text, "test.json",
        {std::string("parallelism.zero_stage=") + zero, "parallelism.pp=2", "parallelism.tp=2"}));
    const BothPrograms programs = both_programs(experiment);
    REQUIRE(experiment.folding().fold);
    const Fold& fold = *experiment.folding().fold;
    for (std::size_t rank = 0; rank < programs.recorded.size(); ++rank) {
      const auto stands = static_cast<std::size_t>(fold.representative_of(static_cast<int>(rank)));
      CHECK(difference_of(programs.recorded[stands], programs.recorded[rank]) == "");
    }
    const std::size_t last = programs.recorded.size() - 1;
    CHECK_FALSE(same_program(programs.recorded[0], programs.recorded[last]));
  }
}

}  // namespace shardsim::test
