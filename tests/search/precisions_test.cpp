#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/search/precision_table.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/temporary_folder.hpp"

// `shardsim plan --precision a,b`: one question in several precisions.
namespace shardsim::test {
namespace {

std::vector<std::string> plan(std::vector<std::string> more) {
  std::vector<std::string> words = {"plan",
                                    "gpt2",
                                    "--gpus",
                                    "8",
                                    "--gpu",
                                    "h100",
                                    "-q",
                                    "--time-limit",
                                    "0",
                                    "--global-batch-size",
                                    "8",
                                    "--fix",
                                    "recompute=none",
                                    "--fix",
                                    "schedule=none",
                                    "--fix",
                                    "micro_batch_size=1",
                                    "--fix",
                                    "tp=1,2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

SearchReport report_with(const std::string& precision, double step_s, std::int64_t bytes) {
  SearchReport report;
  report.precision = precision;
  report.recipe = "none";
  if (step_s > 0) {
    SimulatedPoint point;
    point.fits = true;
    point.step_time_s = step_s;
    point.device_bytes = bytes;
    report.ranked = {point};
  }
  return report;
}

std::string order_of(std::vector<SearchReport> reports, Objective objective) {
  for (SearchReport& report : reports) report.objective = objective;
  std::string words;
  for (const std::size_t place : rank_precisions(reports)) words += reports[place].precision + " ";
  return words;
}

}  // namespace

TEST_CASE("a list of precisions names each once") {
  CHECK(precisions_of("bf16") == std::vector<std::string>{"bf16"});
  CHECK(precisions_of("fp8, bf16 ,nvfp4") == std::vector<std::string>{"fp8", "bf16", "nvfp4"});
  for (const char* wrong : {",bf16", "bf16,", "fp8,,bf16", "fp8,bf16,fp8"}) {
    CHECK_THROWS_AS(precisions_of(wrong), UsageError);
  }
}

TEST_CASE("precisions rank by the objective, and those without a layout come last") {
  const std::vector<SearchReport> reports = {report_with("none", 0, 0), report_with("slow", 2, 10),
                                             report_with("fast", 1, 20)};
  CHECK(order_of(reports, Objective::time) == "fast slow none ");
  CHECK(order_of(reports, Objective::memory) == "slow fast none ");
}

TEST_CASE("a comparison of precisions has the first layout of each search") {
  const Printed both = shardsim(plan({"--precision", "bf16,fp8", "--json"}));
  REQUIRE(both.exit_code == 0);
  const auto compared = nlohmann::json::parse(both.out)["precisions"];
  REQUIRE(compared.size() == 2);
  double before = 0;
  for (const auto& each : compared) {
    const auto precision = each["precision"].get<std::string>();
    const Printed alone = shardsim(plan({"--precision", precision, "--json"}));
    CHECK(nlohmann::json::parse(alone.out) == each);
    const double step = each["ranked"][0]["metrics"]["step_time_s"].get<double>();
    CHECK(step >= before);
    before = step;
  }
  CHECK(compared[0].value("fp8_recipe", "") !=
        compared[1].value("fp8_recipe", ""));  // tensorwise on H100, none in bf16.
}

TEST_CASE("the best of all precisions is written, with its precision") {
  const TemporaryFolder folder;
  const std::string file = folder / "best.json";
  const Printed both = shardsim(plan({"--precision", "bf16,fp8", "--json", "--out", file}));
  REQUIRE(both.exit_code == 0);
  const auto first = nlohmann::json::parse(both.out)["precisions"][0]["precision"];
  CHECK(to_string(load_scenario(file).training.precision) == first.get<std::string>());
  const Printed text = shardsim(plan({"--precision", "bf16,fp8"}));
  for (const char* words : {"2 precisions", "fp8 tensorwise", "bf16", "1.00x", "proven"}) {
    CHECK(contains(text.out, words));
  }
}

TEST_CASE("a recipe is that of fp8, and the other precisions go without") {
  const Printed both =
      shardsim(plan({"--precision", "bf16,fp8", "--set", "training.fp8_recipe=delayed", "--json"}));
  REQUIRE(both.exit_code == 0);
  std::string recipes;
  const auto compared = nlohmann::json::parse(both.out)["precisions"];
  for (const auto& each : compared) {
    recipes += each["precision"].get<std::string>() + " " + each.value("fp8_recipe", "none") + ", ";
  }
  CHECK(contains(recipes, "fp8 delayed, "));
  CHECK(contains(recipes, "bf16 none, "));
}

TEST_CASE("an output that a precision's framework cannot say is refused ahead of all searches") {
  const Printed refused = shardsim(plan({"--precision", "bf16,fp8", "--emit", "torchtitan"}));
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK(contains(refused.err, "E1328"));
}

TEST_CASE("a precision that was not searched has its line") {
  std::vector<SearchReport> reports = {report_with("bf16", 1, 20), report_with("fp8", 0, 0)};
  reports[0].num_candidates = 7;
  reports[1].stop = SearchStop::interrupt;
  const std::string text = to_text(reports, {});
  CHECK(contains(text, "2 precisions"));
  CHECK(contains(text, "fp8               not searched"));
}

TEST_CASE("what belongs to one precision is refused for several") {
  for (const auto& more :
       std::vector<std::vector<std::string>>{{"--csv", "a.csv"},
                                             {"--report", "a.html"},
                                             {"--against", "tp=2"},
                                             {"--set", "training.precision=bf16"}}) {
    std::vector<std::string> words = plan({"--precision", "bf16,fp8"});
    words.insert(words.end(), more.begin(), more.end());
    const Printed refused = shardsim(words);
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "E1330"));
    CHECK(contains(refused.err, more.front()));
  }
  CHECK(contains(shardsim(plan({"--precision", "bf16,fp7"})).err, "fp7"));
  CHECK(contains(shardsim(plan({"--precision", "bf16,nvfp4"})).err, "E0207"));
}

}  // namespace shardsim::test
