#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/pages.hpp"
#include "reports/terminal_text.hpp"
#include "scenarios/load.hpp"
#include "sim/run/run.hpp"
#include "sim/search/search_report.hpp"

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {

namespace {

constexpr double kAnySlower = 1e9;

SimulatedPoint point(std::size_t index, double step_s, std::int64_t device_bytes) {
  SimulatedPoint made;
  made.index = index;
  made.fits = true;
  made.step_time_s = step_s;
  made.device_bytes = device_bytes;
  made.tokens_per_s = 1024.0 / step_s;
  made.tokens_per_s_per_gpu = made.tokens_per_s / 8;
  made.candidate.tp = static_cast<std::int64_t>(index + 1);
  return made;
}

SearchReport small_report() {
  SearchReport report;
  report.model = "m";
  report.system = "s";
  report.num_gpus = 8;
  report.usd_per_gpu_hour = 2;
  report.memory_capacity_bytes = 100;
  report.num_candidates = 5;
  report.num_simulated = 3;
  report.num_slower = 1;
  report.num_too_large = 1;
  report.others = {point(0, 2, 90), point(1, 4, 60), point(2, 8, 70)};
  report.ranked = report.others;
  report.front = pareto_front(report.others, kAnySlower);
  return report;
}

}  // namespace

TEST_CASE("a given layout's words have its rank, its need and its loss") {
  SearchReport report = small_report();
  report.given = GivenOutcome{};
  report.given->point = report.others[1];
  report.given->num_ahead = 1;
  CHECK(
      given_words(report).starts_with("It is number 2 of 5 layouts. Against #1 it (tp 2 instead "
                                      "of 1) is 1e+02 % slower: "));
  report.given->num_undecided = 2;
  CHECK(
      contains(given_words(report), "between number 2 and number 4 of 5 layouts, as 2 that were"));
  report.given->point->is_tight = true;
  CHECK(contains(given_words(report),
                 "of the memory free, so it may run out. Its step is 4.00 s "
                 "against 2.00 s."));
  report.given->point->fits = false;
  CHECK(given_words(report).starts_with(
      "It does not fit: it needs 60.0 B of 100 B. By its step alone "
      "it would be between"));
  report.given->why_not_searched = "none of them has pp 3";
  report.given->point.reset();
  report.given->failure = "no route";
  CHECK(given_words(report) ==
        "It is not among the layouts that are searched: none of them has pp "
        "3. It was not simulated: no route.");
}

TEST_CASE("the first layout is told beside measured runs like it") {
  SearchReport report = small_report();
  CHECK(measured_words(report).empty());
  Result first;
  first.metrics = {{"step_time_s", 2.0}};
  first.error_bands = {{"step_time_s", 2.25, 3.0, 3.75, -0.2, 54, 3, "all models", "", "h100-sxm",
                        54, "none", 0, 8, 2048, 0.8125}};
  report.measured = {first};
  const std::string words =
      "Measured runs like #1 take about 3.00 s a step, 80 % of runs "
      "2.25 to 3.75 s (54 measured of all models); by the model 2.00 s (outside that "
      "range: this group's bias is -20 %).";
  CHECK(measured_words(report) == words);
  CHECK(page_of(report).counts.starts_with("Numbers without a range are by the model. " + words +
                                           " "));
  const auto bands = nlohmann::json::parse(to_json(report))["ranked"][0]["error_bands"];
  CHECK(bands["step_time_s"]["centre"] == 3.0);
  CHECK(bands["step_time_s"]["high"] == 3.75);
  CHECK(bands["step_time_s"]["group"] == "all models");
  report.measured.front().no_error_band = "nobody measured it";
  CHECK(measured_words(report) == "There is no error band: nobody measured it.");
}

TEST_CASE("all layouts of a search are priced as one framework, unless another is named") {
  const auto software_of = [](const std::vector<std::string>& overrides) {
    SearchRequest request;
    request.model = "llama3-8b";
    request.gpu = "h100";
    request.num_gpus = 16;
    request.overrides = overrides;
    const SearchBase base = prepare_search(request);
    Candidate sharded;
    sharded.dp_shard = 16;
    sharded.zero_stage = 3;
    Candidate split = sharded;
    split.dp_shard = 2;
    split.tp = 8;
    split.zero_stage = 1;
    const std::string one = scenario_of(base, sharded).system.software;
    CHECK(scenario_of(base, split).system.software == one);
    CHECK(base.scenario.system.software == one);
    return one;
  };
  CHECK(software_of({}) == "megatron-core-2025");
  CHECK(software_of({"system.software=none"}) == "none");
  CHECK(software_of({"system.software=deepspeed-2024"}) == "deepspeed-2024");
}

TEST_CASE("a point has the bands that a run of its scenario has") {
  const Scenario scenario = load_scenario("scenarios/quickstart.json");
  const RunOutcome run = run_scenario(scenario);
  SimulatedPoint simulated = point(0, *run.result.number(metric::kStepTimeS), 0);
  simulated.device_bytes =
      static_cast<std::int64_t>(*run.result.number(metric::kMemoryDeviceBytesMax));
  const Result measured = measured_like(compile(scenario), simulated);
  REQUIRE(measured.error_bands.size() == run.result.error_bands.size());
  REQUIRE_FALSE(measured.error_bands.empty());
  for (std::size_t i = 0; i < measured.error_bands.size(); ++i) {
    CHECK(measured.error_bands[i].metric == run.result.error_bands[i].metric);
    CHECK(measured.error_bands[i].low == run.result.error_bands[i].low);
    CHECK(measured.error_bands[i].centre == run.result.error_bands[i].centre);
    CHECK(measured.error_bands[i].high == run.result.error_bands[i].high);
  }
}

TEST_CASE("the front leaves out what another beats in both") {
  const std::vector<SimulatedPoint> front = pareto_front(
      {point(0, 4, 60), point(1, 2, 90), point(2, 8, 70), point(3, 4, 60), point(4, 3, 90)},
      kAnySlower);
  REQUIRE(front.size() == 2);
  CHECK(front[0].index == 1);
  CHECK(front[1].index == 0);  // The first of equals.
  CHECK(pareto_front({point(0, 4, 60), point(1, 2, 90)}, 1.5).size() == 1);
}

TEST_CASE("what does not fit is on no front") {
  SimulatedPoint large = point(0, 1, 200);
  large.fits = false;
  CHECK(pareto_front({large}, kAnySlower).empty());
}

TEST_CASE("what leaves less than the margin comes behind all that leaves it, and on the front") {
  SimulatedPoint tight = point(0, 1, 98);
  tight.is_tight = true;
  const SimulatedPoint slow = point(1, 4, 60);
  for (const Objective objective : {Objective::time, Objective::memory, Objective::cost}) {
    CHECK(ranks_before(slow, tight, objective));
    CHECK(!ranks_before(tight, slow, objective));
  }
  CHECK(pareto_front({tight, slow}, kAnySlower).size() == 2);
  SearchReport report = small_report();
  report.memory_margin = 0.05;
  report.ranked = {slow, tight};
  CHECK(to_text(report, {}).find("leaves less than 5 % of the 100 B that a GPU has") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["ranked"][0]["leaves_margin"] == true);
  CHECK(json["ranked"][1]["leaves_margin"] == false);
}

TEST_CASE("cost is hours of all GPUs for so many tokens") {
  SearchReport report = small_report();
  // 512 tokens a second: 10^12 tokens take 10^12 / 512 seconds.
  CHECK(report.usd_per_1t_tokens(report.ranked[0]) == Approx(1e12 / 512 / 3600 * 8 * 2));
  report.usd_per_gpu_hour = 0;
  CHECK(report.usd_per_1t_tokens(report.ranked[0]) == 0);
}

TEST_CASE("no line is wider than a screen") {
  SearchReport report = small_report();
  report.assumptions = {std::string(300, 'x') + " " + std::string(50, 'y')};
  report.ranked[0].candidate = {.tp = 16,
                                .pp = 16,
                                .cp = 16,
                                .ep = 64,
                                .vpp = 16,
                                .dp_replicate = 128,
                                .dp_shard = 128,
                                .micro_batch_size = 128,
                                .zero_stage = 3,
                                .schedule = "interleaved_1f1b",
                                .recompute = Recompute::selective};
  std::istringstream lines(to_text(report, {.wide = false, .ascii = true, .command = "shardsim"}));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(display_width(line) <= 100);
  }
}

TEST_CASE("JSON, CSV and text say the same") {
  const SearchReport report = small_report();
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["ranked"].size() == 3);
  CHECK(json["ranked"][1]["metrics"]["step_time_s"] == 4.0);
  CHECK(json["pareto_front"].size() == 2);
  CHECK(json["counts"]["pruned_worse"] == 1);
  const std::string csv = to_csv(report);
  CHECK(csv.find("\n2,true,tp2 no-sp mb1,2,") != std::string::npos);
  CHECK(csv.find("\n3,false,") != std::string::npos);
  CHECK(to_text(report, {}).find("5 layouts: 3 simulated in full, 1 shown") != std::string::npos);
}

TEST_CASE("a scatter marks the front") {
  const std::string picture = scatter_text(small_report(), /*ascii=*/true);
  CHECK(std::count(picture.begin(), picture.end(), '*') == 2);
  CHECK(std::count(picture.begin(), picture.end(), '.') >= 1);
  CHECK(scatter_text(small_report(), /*ascii=*/false).find("\xE2\xA0") != std::string::npos);
}

}  // namespace shardsim::test
