#include "sim/run/draws/fault_draws.hpp"

#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "reports/text_summary.hpp"
#include "scenarios/load.hpp"
#include "sim/run/draws/factor_quantile.hpp"
#include "sim/run/rank_programs.hpp"
#include "sim/run/whole_training.hpp"

#include "tests/app/folding_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/replay/drawn_plan.hpp"

// Drawn faults: each draw is the scenario with its faults written down, whatever threads draw it,
// and means are those of closed forms.
namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

// The stragglers of a draw, as a list of the scenario.
std::string as_stragglers(const std::vector<double>& slowdown) {
  std::string list;
  for (std::size_t rank = 0; rank < slowdown.size(); ++rank) {
    list += fmt::format(R"({}{{"rank": {}, "slowdown": {:.17g}}})", list.empty() ? "" : ", ", rank,
                        slowdown[rank]);
  }
  return "faults.stragglers=[" + list + "]";
}

double step_of(const std::string& text, const Overrides& overrides) {
  return *run_scenario(load_scenario_text(text, "test.json", overrides))
              .result.number(metric::kStepTimeS);
}

FaultDraws drawn(const Experiment& experiment, const RunHooks& hooks = {}) {
  const RankRecording recording = record_ranks(experiment, hooks, nullptr);
  REQUIRE(recording.programs);
  return draw_faults(experiment, hooks, &*recording.programs, 0.0);
}

Result planned_with(const Overrides& overrides) {
  return planned(small_plan("llama"), overrides, "off");
}

double figure(const Result& result, const MetricRow& row) {
  INFO(row.name);
  REQUIRE(result.number(row).has_value());
  return *result.number(row);
}

const std::string kStragglers =
    R"(faults.draws.stragglers=[{"part": "rank", "probability": 0.3, "slowdown": 1.5,
       "distribution": "exponential", "spread": 0.2},
       {"part": "node", "probability": 0.3, "slowdown": 1.1},
       {"part": "stage", "probability": 0.2, "slowdown": 1.25}])";

}  // namespace

TEST_CASE("property: a draw of stragglers is the plan with these stragglers, bit by bit") {
  int compared = 0;
  int slower = 0;
  check_property(20, [&] {
    DrawnScenario plan = draw_faulty_plan();
    plan.erase("faults.flapping_links");
    const std::string text = plan.text();
    std::optional<Experiment> experiment;
    double healthy_s = 0.0;
    try {
      healthy_s = step_of(text, {});
      experiment.emplace(
          load_scenario_text(text, "test.json", {"faults.draws.count=4", kStragglers}));
    } catch (const Error&) {
      return;  // Its fields do not fit together.
    }
    const RankRecording recording = record_ranks(*experiment, {}, nullptr);
    if (!recording.programs) return;
    const FaultDraws draws = draw_faults(*experiment, {}, &*recording.programs, healthy_s);
    for (std::int64_t draw = 0; draw < 4; ++draw) {
      const LaneFaults faults = lane_of_draw(*experiment, draw);
      const double step_s = draws.step_s[static_cast<std::size_t>(draw)];
      const double expected_s =
          faults.slowdown.empty() ? healthy_s : step_of(text, {as_stragglers(faults.slowdown)});
      RC_ASSERT(step_s == expected_s);
      if (step_s > healthy_s) ++slower;
    }
    ++compared;
  });
  CHECK(compared >= 8);
  CHECK(slower > compared);
}

TEST_CASE("draws are the same on several threads, and the first of more are those of fewer") {
  for (const std::string& fault : {kStragglers, std::string("faults.draws.compute_jitter={"
                                                            "\"distribution\": \"lognormal\", "
                                                            "\"spread\": 0.1}")}) {
    const auto experiment_with = [&](int count) {
      return compile(load_scenario_text(small_plan("llama"), "test.json",
                                        {fmt::format("faults.draws.count={}", count), fault}));
    };
    const FaultDraws alone = drawn(experiment_with(70));
    RunHooks hooks;
    hooks.in_parallel = [](std::size_t count, const std::function<void(std::size_t)>& body) {
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < count; ++i) threads.emplace_back(body, count - 1 - i);
      for (std::thread& thread : threads) thread.join();
    };
    CHECK(drawn(experiment_with(70), hooks).step_s == alone.step_s);
    const std::vector<double> first = drawn(experiment_with(33)).step_s;
    CHECK(std::equal(first.begin(), first.end(), alone.step_s.begin()));
    CHECK(alone.step_s.front() != alone.step_s.back());
    const Experiment other = compile(load_scenario_text(
        small_plan("llama"), "test.json", {"faults.draws.count=70", "faults.draws.seed=1", fault}));
    CHECK(drawn(other).step_s != alone.step_s);
  }
}

TEST_CASE("stragglers are as frequent as their probability says") {
  const Experiment experiment = compile(load_scenario_text(
      small_plan("llama"), "test.json",
      {"faults.draws.count=1",
       R"(faults.draws.stragglers=[{"part": "node", "probability": 0.25, "slowdown": 2}])"}));
  constexpr int kDraws = 2000;
  int slow = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<double> slowdown = lane_of_draw(experiment, draw).slowdown;
    if (slowdown.empty()) continue;
    for (std::size_t node = 0; node < 2; ++node) {
      for (std::size_t gpu = 0; gpu < 8; ++gpu) {
        CHECK(slowdown[8 * node + gpu] == slowdown[8 * node]);
      }
      if (slowdown[8 * node] == 2.0) ++slow;
    }
  }
  // 4,000 nodes: a standard error is sqrt(0.25 x 0.75 / 4000) = 0.0068.
  CHECK(std::fabs(slow / (2.0 * kDraws) - 0.25) < 3 * 0.0068);
}

TEST_CASE("distributions have the quantiles of their definitions") {
  const auto at = [](FactorShape shape, double spread, double share) {
    return factor_quantile({shape, spread}, share);
  };
  CHECK(at(FactorShape::none, 0, 0.3) == 1.0);
  CHECK(at(FactorShape::uniform, 0.2, 0.25) == 1.05);
  CHECK(at(FactorShape::exponential, 0.1, 0.5) == Approx(1.0 + 0.1 * std::log(2.0)));
  CHECK(at(FactorShape::lognormal, 0.1, 0.5) == 1.0);
  // The normal distribution's quantile of 97.5 %.
  CHECK(at(FactorShape::lognormal, 0.1, 0.975) == Approx(std::exp(0.1 * 1.959963985)));
  CHECK(at(FactorShape::lognormal, 0.1, 0.025) == Approx(std::exp(-0.1 * 1.959963985)));
}

TEST_CASE("the mean goodput of the draws is that of the closed form") {
  const Overrides failures = {"faults.gpu_mtbf_hours=3200",   "faults.node_mtbf_hours=800",
                              "faults.checkpoint_write_s=48", "faults.detection_s=100",
                              "faults.restart_s=500",         "faults.draws.count=1000"};
  const Result result = planned_with(failures);
  const double expected = figure(result, metric::kGoodputFraction);
  const double error = figure(result, metric::kDrawsGoodputStandardError);
  CHECK(std::fabs(figure(result, metric::kDrawsGoodputMean) - expected) < 3.0 * error);
  CHECK(error < 0.01 * expected);
  CHECK(figure(result, metric::kDrawsGoodputP5) < figure(result, metric::kDrawsGoodputP50));
  CHECK(figure(result, metric::kDrawsGoodputP50) < figure(result, metric::kDrawsGoodputP95));
  // Steps do not vary.
  CHECK(figure(result, metric::kDrawsStepTimeSP5) == figure(result, metric::kStepTimeS));
  CHECK(figure(result, metric::kDrawsStepTimeSP99) == figure(result, metric::kStepTimeS));
  // The mean of a short training's ratios would lie above: all work by all time does not.
  Overrides shorter = failures;
  shorter.back() = "faults.draws.count=20000";
  shorter.emplace_back("faults.draws.training_days=0.5");
  const Result brief = planned_with(shorter);
  const double its_error = figure(brief, metric::kDrawsGoodputStandardError);
  CHECK(std::fabs(figure(brief, metric::kDrawsGoodputMean) - expected) < 3.0 * its_error);
  CHECK(its_error < 0.01 * expected);
  // A longer training varies less: as one by the root of its length.
  Overrides longer = failures;
  longer.emplace_back("faults.draws.training_days=480");
  const double ratio = figure(planned_with(longer), metric::kDrawsGoodputStandardError) / error;
  CHECK(ratio == Approx(0.25).epsilon(0.15));
}

TEST_CASE("days of the draws follow from their steps and their goodput") {
  const Result result =
      planned_with({"faults.draws.count=50", kStragglers, "training.tokens_total=1e9"});
  const double per_second = figure(result, metric::kCostDays) / figure(result, metric::kStepTimeS);
  CHECK(figure(result, metric::kDrawsDaysP50) ==
        Approx(per_second * figure(result, metric::kDrawsStepTimeSP50)).epsilon(1e-12));
  const std::string page = to_text(result, {}, {.width = 100});
  CHECK(page.find("draws") != std::string::npos);
  CHECK(page.find("50, 90 % of them: step ") != std::string::npos);
  CHECK(page.find("; training ") != std::string::npos);
}

TEST_CASE("draws of failures alone need no replay, and flapping links do not disturb them") {
  const Overrides failures = {"faults.gpu_mtbf_hours=3200", "faults.checkpoint_write_s=48",
                              "faults.restart_s=500", "faults.draws.count=10"};
  const Result replayed = planned_with(failures);
  Overrides run = failures;
  run.emplace_back("execution.engine=run");
  CHECK(figure(planned_with(run), metric::kDrawsGoodputP5) ==
        figure(replayed, metric::kDrawsGoodputP5));
  Overrides flapping = failures;
  flapping.emplace_back(
      R"(faults.flapping_links=[{"tier": "intra_node", "down_s": 1e-5, "period_s": 1e-4}])");
  CHECK(figure(planned_with(flapping), metric::kDrawsCount) == 10.0);
}

TEST_CASE("a training that never ends has a goodput of zero, and no days") {
  const Result result =
      planned_with({"faults.gpu_mtbf_hours=0.05", "faults.checkpoint_write_s=60",
                    "faults.restart_s=6000", "faults.draws.count=2", "training.tokens_total=1e12"});
  CHECK(figure(result, metric::kDrawsGoodputP95) == 0.0);
  CHECK(result.find(metric::kDrawsDaysP5) == nullptr);
}

TEST_CASE("the mean of jitter is that of its distribution, from the scenario's fields on") {
  const Result result =
      planned_with({"system.nodes=1", "system.gpus_per_node=1", "faults.draws.count=1000",
                    "faults.draws.compute_jitter.distribution=uniform",
                    "faults.draws.compute_jitter.spread=0.5", "training.global_batch_size=4"});
  // One rank computes all the time, so factors of 1 to 1.5 make it a quarter longer.
  const double error = figure(result, metric::kDrawsStepTimeSStandardError);
  CHECK(std::fabs(figure(result, metric::kDrawsStepTimeSMean) -
                  1.25 * figure(result, metric::kStepTimeS)) < 3.0 * error);
  CHECK(error < 0.01 * figure(result, metric::kStepTimeS));
}

TEST_CASE("a quantile lies between the values beside it") {
  CHECK(quantile_of({3.0, 1.0, 2.0}, 0.5) == 2.0);
  CHECK(quantile_of({3.0, 1.0, 2.0}, 0.75) == 2.5);
  CHECK(quantile_of({7.0}, 0.05) == 7.0);
  CHECK(quantile_of({1.0, 2.0}, 1.0) == 2.0);
}

TEST_CASE("draws that cannot be replayed are refused with the reason") {
  const Overrides overrides = {"faults.draws.count=2", kStragglers, "execution.engine=run"};
  try {
    static_cast<void>(planned_with(overrides));
    FAIL("nothing was refused");
  } catch (const LimitError& refused) {
    CHECK(refused.code() == "E0313");
    CHECK(std::string(refused.what()).find("execution.engine is \"run\"") != std::string::npos);
  }
}

}  // namespace shardsim::test
