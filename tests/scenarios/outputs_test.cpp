#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

TEST_CASE("files to write have names of their own, which tell what they are") {
  const auto code = [](const std::vector<std::string>& flags) {
    return only_problem_of(valid_text(), flags).code;
  };
  CHECK(code({"output.csv=run.csv", "output.result=run.csv"}) == "E0211");
  CHECK(code({"output.report=a.html", "output.markdown=a.html"}) == "E0211");
  // Tables beside run.csv are run.stages.csv and its like.
  CHECK(code({"output.csv=t/run.csv", "output.result=t/run.stages.csv"}) == "E0211");
  CHECK(loaded(valid_text(), {"output.csv=run.csv", "output.result=run.json"}).output.csv ==
        "run.csv");
  CHECK(code({"output.report=run.htm"}) == "E1392");
  CHECK(code({"output.csv=.csv"}) == "E1392");
  CHECK(code({"output.markdown=../run.md"}) == "E0110");
}

TEST_CASE("pages and tables are asked for by name, and only then shown in detail") {
  CHECK_FALSE(loaded(valid_text(), {"output.trace=t.json"}).output.wants_detail());
  const Scenario scenario =
      loaded(valid_text(), {"output.report=r.html", "output.markdown=r.md", "output.csv=t/r.csv"});
  CHECK(scenario.output.report == "r.html");
  CHECK(scenario.output.markdown == "r.md");
  CHECK(scenario.output.csv == "t/r.csv");
  CHECK(scenario.output.wants_detail());
}

TEST_CASE("what a training takes and costs is said, or it is nothing") {
  const Scenario silent = loaded(valid_text());
  CHECK(silent.training.tokens_total == 0);
  CHECK(silent.cost.usd_per_gpu_hour == 0);
  const Scenario said =
      loaded(valid_text(), {"training.tokens_total=15e12", "cost.usd_per_gpu_hour=2.35"});
  CHECK(said.training.tokens_total == 15e12);
  CHECK(said.cost.usd_per_gpu_hour == 2.35);
  CHECK(only_problem_of(valid_text(), {"cost.usd_per_gpu_hour=-1"}).code == "E0102");
}
