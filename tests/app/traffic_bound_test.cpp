#include <string>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// The bound on a scenario's traffic that loading promises, held against runs.
namespace shardsim::test {
namespace {

void check_bound(const Scenario& scenario) {
  const Result result = run_scenario(scenario).result;
  const TrafficBound bound = traffic_bound(scenario);
  const auto sent = [&](const std::string& name) {
    return *result.number("comm.bytes_sent." + name) *
           static_cast<double>(scenario.execution.steps);
  };
  const auto holds = [&](const std::optional<std::int64_t>& limit, const std::string& axis) {
    INFO(axis);
    REQUIRE(limit.has_value());
    CHECK(static_cast<double>(*limit) >= sent("by_axis." + axis));
    CHECK((*limit > 0) == (sent("by_axis." + axis) > 0));
  };
  holds(bound.data_parallel, "dp");
  holds(bound.tensor_parallel, "tp");
  holds(bound.pipeline, "pp");
  holds(bound.context_parallel, "cp");
  CHECK(static_cast<double>(bound.total.value()) >= sent("total") + sent("scalars"));
}

}  // namespace

TEST_CASE("the bound on traffic holds by axis, in every verify scenario and with every option") {
  for (const std::string& path : verify_scenarios()) {
    for (const char* option :
         {"execution.steps=3", "training.recompute=full", "parallelism.sync_every_microbatch=false",
          "execution.all_reduce_algorithm=tree"}) {
      INFO(path << " " << option);
      if (std::string(option) == "training.recompute=full" &&
          load_scenario(path).model.family == ModelFamily::mlp) {
        continue;
      }
      check_bound(load_scenario(path, {"execution.tensors=meta", option}));
    }
  }
}

TEST_CASE("the bound on traffic is at most three times the traffic, where layers dominate") {
  // Far from the limit nobody cares; a bound that is far too high would refuse what can be run.
  for (const char* name : {"llama-tp2-pp2-recompute", "gpt-tp4", "gpt-pp4-1f1b", "gpt-zero3"}) {
    const Scenario scenario = load_scenario(std::string("scenarios/verify-") + name + ".json",
                                            {"execution.tensors=meta"});
    const Result result = run_scenario(scenario).result;
    INFO(name);
    CHECK(static_cast<double>(traffic_bound(scenario).total.value()) <=
          3.0 * *result.number("comm.bytes_sent.total") *
              static_cast<double>(scenario.execution.steps));
  }
}

}  // namespace shardsim::test
