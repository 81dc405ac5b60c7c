#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "scenarios/nccl_platform.hpp"

#include "tests/scenarios/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

std::vector<std::string> nccl_with(std::vector<std::string> overrides) {
  overrides.emplace_back("system.network_model=nccl");
  overrides.emplace_back("system.gpu_generation=hopper");
  return overrides;
}

}  // namespace

TEST_CASE("system.nccl reaches NCCL's model, and says nothing if it is left out") {
  const NcclOverrides none = nccl_platform_of(loaded(valid_text(), nccl_with({})).system).overrides;
  CHECK(none.selection.algorithms().empty());
  CHECK(none.selection.protocols().empty());
  CHECK(none.inside.bandwidth_factor == 1);
  CHECK(none.inside.added_latency_us == 0);
  CHECK(none.between.bandwidth_factor == 1);
  CHECK(none.between.added_latency_us == 0);
  const NcclOverrides given =
      nccl_platform_of(
          loaded(valid_text(),
                 nccl_with({"system.nccl.algorithms=^nvls", "system.nccl.protocols=simple",
                            "system.nccl.intra_node.bandwidth_factor=0.9",
                            "system.nccl.intra_node.added_latency_us=-1.5",
                            R"(system.nccl.inter_node={"bandwidth_factor": 1.25, // measured
                               "added_latency_us": 12, "source": "a table"})"}))
              .system)
          .overrides;
  CHECK(given.selection.algorithms() == "^nvls");
  CHECK(given.selection.protocols() == "simple");
  CHECK(given.inside.bandwidth_factor == 0.9);
  CHECK(given.inside.added_latency_us == -1.5);
  CHECK(given.between.bandwidth_factor == 1.25);
  CHECK(given.between.added_latency_us == 12);
}

TEST_CASE("a selection that cannot be read is told at its own field") {
  const Problem algorithm =
      only_problem_of(valid_text(), nccl_with({"system.nccl.algorithms=rings"}));
  CHECK(algorithm.code == "E0406");
  CHECK(algorithm.pointer == "/system/nccl/algorithms");
  CHECK(algorithm.message == "system.nccl.algorithms: there is no algorithm \"rings\"");
  CHECK(algorithm.help.find("Tree, Ring, NVLS, NVLSTree, PAT") != std::string::npos);
  const Problem protocol = only_problem_of(valid_text(), nccl_with({"system.nccl.protocols=^"}));
  CHECK(protocol.code == "E0406");
  CHECK(protocol.pointer == "/system/nccl/protocols");
  // Also where the list would act on nothing.
  CHECK(only_problem_of(valid_text(), {"system.nccl.algorithms=rings"}).code == "E0406");
}

TEST_CASE("what would act on NCCL's prices is refused where there are none") {
  for (const char* flag :
       {"system.nccl.algorithms=ring", "system.nccl.protocols=ll",
        "system.nccl.intra_node.bandwidth_factor=0.9", "system.nccl.intra_node.added_latency_us=1",
        "system.nccl.inter_node.bandwidth_factor=0.9",
        "system.nccl.inter_node.added_latency_us=1"}) {
    const Problem problem = only_problem_of(valid_text(), {flag});
    CHECK(problem.code == "E0408");
    const std::string words = flag;
    const std::string field = words.substr(0, words.find('='));
    CHECK(problem.message ==
          field + " acts on NCCL's prices, and system.network_model is alpha_beta");
    CHECK(problems_of(valid_text(), nccl_with({flag})).empty());
  }
  // A value that holds anyway is no problem.
  CHECK(problems_of(valid_text(), {"system.nccl.inter_node.added_latency_us=0"}).empty());
}

TEST_CASE("corrections have bounds") {
  const auto is_refused = [](const char* flag) {
    const std::vector<Problem> problems = problems_of(valid_text(), nccl_with({flag}));
    return problems.size() == 1 && problems.front().code == "E0102";
  };
  CHECK(is_refused("system.nccl.intra_node.added_latency_us=-5.01"));
  CHECK_FALSE(is_refused("system.nccl.intra_node.added_latency_us=-5"));
  CHECK(is_refused("system.nccl.inter_node.bandwidth_factor=0"));
  CHECK(is_refused("system.nccl.inter_node.bandwidth_factor=101"));
}

TEST_CASE("a preset may bring corrections to a scenario that asks for another model") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "systems");
  std::ofstream(folder / "systems/mine.json")
      << replaced(content_of("scenarios/systems/dgx-h100.json"), "{",
                  R"({"nccl": {"inter_node": {"bandwidth_factor": 0.9, "source": "a table"}},)");
  const std::string text = R"({"schema_version": 1, "name": "calibrated",
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "vocab_size": 8},
    "system": {"nodes": 2, "preset": "mine"},
    "training": {"global_batch_size": 1024, "micro_batch_size": 1, "precision": "bf16"}})";
  const Scenario calibrated = load_scenario_text(text, folder / "scenario.json");
  CHECK(nccl_platform_of(calibrated.system).overrides.between.bandwidth_factor == 0.9);
  const auto source = std::find_if(calibrated.sources.begin(), calibrated.sources.end(),
                                   [](const NumberSource& each) {
                                     return each.field == "system.nccl.inter_node.bandwidth_factor";
                                   });
  REQUIRE(source != calibrated.sources.end());
  CHECK(source->source == "a table");
  CHECK_NOTHROW(
      load_scenario_text(text, folder / "scenario.json", {"system.network_model=alpha_beta"}));
}
