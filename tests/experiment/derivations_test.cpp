#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/field.hpp"
#include "scenarios/load.hpp"
#include "sim/experiment/derive.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/search/search_fixture.hpp"

// A scenario is compiled once per run, and each part of it is derived once, whatever the run is
// asked for.
namespace shardsim::test {
namespace {

// The derivations that `work` makes on this thread.
template <class Work>
Derivations derived_by(const Work& work) {
  derivations() = {};
  work();
  return derivations();
}

// `runs` experiments, each with all that a folded run needs.
Derivations each_once(int runs) {
  return {.experiments = runs,
          .clusters = runs,
          .faults = runs,
          .options = runs,
          .optimizers = runs,
          .plans = runs,
          .alike = runs,
          .foldings = runs,
          .assumptions = runs};
}

}  // namespace

TEST_CASE("a run derives each part once, with a report, a trace, faults and folding, too") {
  const TemporaryFolder folder;
  const Derivations derived = derived_by([&] {
    std::vector<std::string> words = {kPlan, "--out", folder.path(), "--assumptions"};
    for (const char* setting :
         {"execution.fold=require", "output.report=run.html", "output.csv=run.csv",
          "output.markdown=run.md", "output.trace=run.pftrace", "output.trace_ranks=[0]",
          R"(faults.stragglers=[{"stage": 0, "slowdown": 1.1}])", "faults.gpu_mtbf_hours=1000",
          "faults.restart_s=600", "faults.checkpoint_gb_per_s=1"}) {
      words.insert(words.end(), {"--set", setting});
    }
    const Printed printed = shardsim(words);
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    REQUIRE(contains(content_of(folder / "run.html"), "<html"));
  });
  CHECK(derived == each_once(1));
}

TEST_CASE("a run with real tensors derives each part once, and no ranks that are alike") {
  const Derivations derived = derived_by([] {
    CHECK(shardsim({"scenarios/verify-gpt-tp2-pp2-dp2-zero1.json", "--json"}).exit_code == 0);
  });
  Derivations expected = each_once(1);
  expected.foldings = 0;
  CHECK(derived.alike <= 1);
  expected.alike = derived.alike;
  CHECK(derived == expected);
}

TEST_CASE("a search compiles each simulated layout once, and one layout of each kind of weights") {
  const SmallSpace space = small_spaces().front();
  int simulated = 0;
  int candidates = 0;
  const Derivations derived = derived_by([&] {
    const Searched found = searched(space, true, 1);
    simulated = static_cast<int>(found.outcome.simulated.size());
    candidates = static_cast<int>(found.outcome.num_candidates);
    REQUIRE(found.outcome.num_failed == 0);
  });
  REQUIRE(simulated > 5);
  // Bounds have one plan for all layouts with the same weights on the same ranks, and the base's
  // machine once more.
  const int bounded = derived.plans - simulated;
  CHECK(bounded > 0);
  constexpr int kLayoutsOfKind = 4;
  CHECK(bounded * kLayoutsOfKind < candidates);
  Derivations expected = each_once(simulated);
  expected.plans = derived.plans;
  for (int* count : {&expected.experiments, &expected.clusters, &expected.faults, &expected.options,
                     &expected.optimizers}) {
    *count += bounded + 2;
  }
  expected.alike = derived.alike;
  CHECK(derived.alike <= simulated);
  CHECK(derived == expected);
}

TEST_CASE("schedules that are explored share one experiment beside the given one") {
  const Experiment given = compile(load_scenario("scenarios/verify-gpt-pp4-1f1b.json"));
  const Derivations derived = derived_by([&] {
    ScenarioExplorer explorer(given, {});
    CHECK(explorer.explore({.mode = "pct", .schedules = 4}).result.exit_code == 0);
    CHECK(explorer.num_runs() > 4);
  });
  CHECK(derived.experiments == 1);
  CHECK(derived.plans == 1);
  CHECK(derived.assumptions == 1);
}

TEST_CASE("an experiment that runs twice says the same twice") {
  const std::vector<std::string> unread = {"execution.fold=auto", "system.network_model=nccl",
                                           "system.inter_node.latency_us=7",
                                           "system.host_us_per_kernel=3"};
  const Experiment experiment = compile(load_scenario(kPlan, unread));
  const Result first = run_experiment(experiment).result;
  const Result second = run_experiment(experiment).result;
  CHECK_FALSE(first.warnings.empty());
  CHECK(first.warnings == second.warnings);
  REQUIRE(first.assumptions.size() == second.assumptions.size());
  CHECK(*first.find("trace_hash") == *second.find("trace_hash"));
}

TEST_CASE("deriving reads no marked number: that is left to the run that decides by it") {
  for (const std::string& file : all_scenarios()) {
    INFO(file);
    Scenario scenario = load_scenario(file);
    for (const Field& field : field_table()) {
      if (field.set_mark != nullptr) field.set_mark(scenario, mark_of(field));
    }
    ReadLog reads;
    {
      const ReadLog::Scope noted(&reads);
      const Experiment experiment = compile(std::move(scenario));
      CHECK(experiment.plan().num_runs() > 0);
      CHECK(experiment.folding().fold.has_value() == experiment.folding().obstacle.empty());
      CHECK_FALSE(experiment.assumptions().empty());
    }
    for (const Field& field : field_table()) {
      INFO(field.path);
      CHECK_FALSE(reads.was_read(mark_of(field)));
    }
  }
}

}  // namespace shardsim::test
