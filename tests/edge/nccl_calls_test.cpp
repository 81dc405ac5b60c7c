#include <cstdio>
#include <optional>
#include <string>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/draws.hpp"
#include "tests/edge/edge_scenario.hpp"
#include "tests/property/check_property.hpp"

// The loader predicts which collectives a run calls. With fewer NCCL algorithms both must refuse
// the same scenarios, so the loader's table has neither too much nor too little.
namespace shardsim::test {

namespace {

constexpr const char* kNothingLeft = "E0407";

bool loader_refuses(const std::string& text, const std::vector<std::string>& settings) {
  try {
    static_cast<void>(load_scenario_text(text, "nccl.json", settings));
  } catch (const ScenarioError& error) {
    if (error.problems().front().code != kNothingLeft) throw;
    return true;
  }
  return false;
}

// Runs the scenario with algorithms that the loader has not seen.
bool run_refuses(Scenario scenario, const std::string& algorithms, const std::string& protocols) {
  scenario.system.network.nccl_algorithms = algorithms;
  scenario.system.network.nccl_protocols = protocols;
  try {
    static_cast<void>(run_scenario(scenario));
  } catch (const UsageError& error) {
    if (error.code() != kNothingLeft) throw;
    return true;
  }
  return false;
}

// Leaves a single algorithm to one function, or to all.
std::string draw_algorithms() {
  const std::string only = one_of({"tree", "nvls", "nvlstree", "pat", "ring"});
  if (once_in(4)) return only;
  const std::string function = one_of({"allreduce", "reducescatter", "allgather", "broadcast"});
  return "ring,tree;" + function + ":" + only;
}

}  // namespace

TEST_CASE("the loader refuses NCCL's algorithms exactly where the run would find none") {
  int refused = 0;
  int runs = 0;
  check_property(150, [&] {
    DrawnScenario drawn = draw_preset_plan();
    drawn.set_word("execution.all_reduce_algorithm",
                   one_of({"automatic", "automatic", "ring", "tree"}));
    const std::string algorithms = once_in(4) ? "" : draw_algorithms();
    const std::string protocols = once_in(4) ? one_of({"ll", "ll128", "allreduce:ll128"}) : "";
    const std::string text = drawn.text();
    std::optional<Scenario> scenario;
    try {
      scenario = load_scenario_text(text, "nccl.json");
    } catch (const ScenarioError&) {
      RC_DISCARD("the loader refuses it for other reasons");
    }
    const bool before = loader_refuses(text, {"system.nccl.algorithms=\"" + algorithms + "\"",
                                              "system.nccl.protocols=\"" + protocols + "\""});
    const bool within = run_refuses(*scenario, algorithms, protocols);
    ++runs;
    if (within) ++refused;
    if (before == within) return;
    RC_FAIL(std::string("the loader ") + (before ? "refuses" : "accepts") + " \"" + algorithms +
            "\" and \"" + protocols + "\", the run does not\n" + text);
  });
  std::printf("figures: NCCL's algorithms: %d of %d runs find none\n", refused, runs);
  CHECK(refused * 5 > runs);
  CHECK(refused * 5 < 4 * runs);
}

}  // namespace shardsim::test
