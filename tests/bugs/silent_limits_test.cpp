#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/app/run.hpp"

// Set fields without effect were not named: latencies beside NCCL's model, which has its own, and a
// network card's bandwidth above the limit of PCIe.
namespace shardsim {
namespace {

std::vector<std::string> warnings_of(const std::string& flag) {
  const Scenario scenario = load_scenario(
      "tests/effect/dense.json", flag.empty() ? std::vector<std::string>() : std::vector{flag});
  return run_scenario(scenario).result.warnings;
}

}  // namespace

TEST_CASE("a latency that NCCL's model does not read is named") {
  CHECK(warnings_of("").empty());
  for (const std::string path : {"system.intra_node.latency_us", "system.inter_node.latency_us"}) {
    CHECK(warnings_of(path + "=123") ==
          std::vector<std::string>{path + " has no effect here: this run does not use it"});
  }
}

TEST_CASE("a bandwidth that loses against PCIe is named with the winner") {
  const std::string path = "system.inter_node.bandwidth_gb_per_s";
  CHECK(warnings_of(path + "=100") ==
        std::vector<std::string>{path + " has no effect here: a stricter limit always "
                                        "applies: system.pcie_gb_per_s"});
  CHECK(warnings_of(path + "=25").empty());
}

}  // namespace shardsim
