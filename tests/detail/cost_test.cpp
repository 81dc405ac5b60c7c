#include <sstream>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/whole_training.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/detail/detail_fixture.hpp"

namespace shardsim::test {

namespace {

Result priced(const std::vector<std::string>& overrides) {
  return run_scenario(load_scenario(kPlan, overrides)).result;
}

}  // namespace

TEST_CASE("days, GPU hours and USD are the arithmetic of numbers that are shown") {
  const Result result = priced({"training.tokens_total=1.5e12", "cost.usd_per_gpu_hour=2.35"});
  const double days = 1.5e12 / *result.number("tokens_per_s") / 86400;
  CHECK(*result.number("cost.days") == days);
  CHECK(*result.number("cost.gpu_hours") == days * 24 * *result.number("ranks"));
  CHECK(*result.number("cost.usd") == *result.number("cost.gpu_hours") * 2.35);
}

TEST_CASE("where failures are said, days are those of the tokens that are kept") {
  const Result result = priced({"training.tokens_total=1e12", "faults.gpu_mtbf_hours=50000",
                                "faults.checkpoint_write_s=30", "faults.restart_s=300"});
  const double kept = *result.number("goodput.effective_tokens_per_s");
  REQUIRE(kept < *result.number("tokens_per_s"));
  CHECK(*result.number("cost.days") == 1e12 / kept / 86400);
}

TEST_CASE("nothing is said of a cost that nobody asks for") {
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{}, std::vector<std::string>{"cost.usd_per_gpu_hour=2"}}) {
    const Result result = priced(overrides);
    for (const char* name : {"cost.days", "cost.gpu_hours", "cost.usd"}) {
      CHECK(result.find(name) == nullptr);
    }
  }
  const Result timed = priced({"training.tokens_total=1e9"});
  CHECK(timed.find("cost.days") != nullptr);
  CHECK(timed.find("cost.usd") == nullptr);
}

TEST_CASE("the page says what a training takes, and an assumption what that leaves out") {
  const Printed printed = shardsim(
      {kPlan, "--set", "training.tokens_total=1e12", "--set", "cost.usd_per_gpu_hour=2.5"});
  std::string words;  // However its lines are broken.
  std::istringstream stream(printed.out);
  for (std::string word; stream >> word;) words += word + " ";
  CHECK(contains(words, "1 T tokens: "));
  CHECK(contains(words, " days "));
  CHECK(contains(words, ", $"));
  const Result result = priced({"training.tokens_total=1e12", "cost.usd_per_gpu_hour=2.5"});
  std::string assumptions;
  for (const Assumption& assumption : result.assumptions) assumptions += assumption.text + "\n";
  CHECK(contains(assumptions, "no failures, no evaluation, no checkpoints"));
  CHECK(contains(assumptions, "a GPU costs 2.5 $ an hour"));
}

TEST_CASE("a detailed run has the same cost as the metrics") {
  const DetailedRun run =
      detailed(kPlan, {"training.tokens_total=1e12", "cost.usd_per_gpu_hour=2.5"});
  CHECK(run.detail.cost.tokens_total == 1e12);
  CHECK(run.detail.cost.days == run.metric("cost.days"));
  CHECK(run.detail.cost.gpu_hours == run.metric("cost.gpu_hours"));
  CHECK(run.detail.cost.usd == run.metric("cost.usd"));
  CHECK(run.detail.cost.usd_per_gpu_hour == 2.5);
}

}  // namespace shardsim::test
