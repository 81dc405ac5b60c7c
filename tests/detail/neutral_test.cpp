#include <catch2/catch.hpp>

#include "reports/json_writer.hpp"
#include "reports/trace_writers.hpp"
#include "scenarios/load.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/detail/detail_fixture.hpp"

namespace shardsim::test {

TEST_CASE("a run says the same, byte by byte, whether its detail is asked for or not") {
  for (const char* name : {"verify-gpt-zero3", "verify-llama-ep4-learned", "verify-gpt-pp4-zb-v",
                           "verify-gpt-tp2-pp2-dp2-fp16", "verify-llama-elastic", "quickstart"}) {
    INFO(name);
    const Scenario scenario =
        load_scenario(std::string("scenarios/") + name + ".json", {"output.trace=t.json"});
    const RunOutcome plain = run_scenario(scenario);
    RunHooks hooks;
    hooks.detail = true;
    const RunOutcome detailed = run_scenario(scenario, hooks);
    CHECK_FALSE(plain.detail.has_value());
    CHECK(detailed.detail.has_value());
    CHECK(to_json(detailed.result) == to_json(plain.result));
    CHECK(to_chrome_json(detailed.traces) == to_chrome_json(plain.traces));
    CHECK(detailed.decisions.has_value() == plain.decisions.has_value());
  }
}

TEST_CASE("detail is collected where a file shows it, and not of a run that fails to end") {
  for (const char* file : {"output.report=r.html", "output.markdown=r.md", "output.csv=r.csv"}) {
    INFO(file);
    CHECK(run_scenario(load_scenario(kPlan, {file})).detail.has_value());
  }
  CHECK_FALSE(run_scenario(load_scenario(kPlan)).detail.has_value());
}

TEST_CASE("a run is the same with detail whatever the order in which its ranks take turns") {
  const Scenario scenario = load_scenario("scenarios/verify-gpt-tp2-pp2-dp2-zero1.json");
  RunHooks hooks;
  hooks.detail = true;
  const RunOutcome first = run_scenario(scenario, hooks);
  hooks.schedule.seed = 7;
  const RunOutcome second = run_scenario(scenario, hooks);
  CHECK(first.detail->traffic.bytes == second.detail->traffic.bytes);
  REQUIRE(first.detail->schedule.rows.size() == second.detail->schedule.rows.size());
  for (std::size_t i = 0; i < first.detail->schedule.rows.size(); ++i) {
    const GanttRow& a = first.detail->schedule.rows[i];
    const GanttRow& b = second.detail->schedule.rows[i];
    CHECK(a.track == b.track);
    REQUIRE(a.bars.size() == b.bars.size());
    for (std::size_t bar = 0; bar < a.bars.size(); ++bar) {
      CHECK(a.bars[bar].begin_s == b.bars[bar].begin_s);
      CHECK(a.bars[bar].microbatch == b.bars[bar].microbatch);
    }
  }
}

}  // namespace shardsim::test
