#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/experiment.hpp"
namespace shardsim {
namespace {

// Source of the assumption with these words in it; "" if there is none.
std::string source_with(const std::string& words, const std::vector<std::string>& overrides) {
  const std::vector<Assumption> all =
      price_of_communication(compile(load_scenario("scenarios/quickstart.json", overrides)));
  const auto found = std::find_if(all.begin(), all.end(), [&](const Assumption& each) {
    return each.text.find(words) != std::string::npos;
  });
  return found == all.end() ? "" : found->source;
}

}  // namespace

TEST_CASE("a result says what NCCL's prices were corrected by, and what it chose from") {
  CHECK(source_with("no tuner plugin and no variable of NCCL's changes its choice", {}) ==
        "NCCL's defaults");
  CHECK(source_with("alibrated", {}).empty());
  const std::vector<std::string> overrides = {
      "system.nccl.algorithms=^nvls", "system.nccl.intra_node.bandwidth_factor=0.9",
      "system.nccl.intra_node.added_latency_us=-2.5", "system.nccl.inter_node.added_latency_us=12"};
  CHECK(source_with("NCCL chooses from the algorithms \"^nvls\" and the protocols all",
                    overrides) == "system.nccl of the scenario");
  CHECK_FALSE(
      source_with("Calibrated within a node: NCCL's bandwidth times 0.9, its latency -2.5 us",
                  overrides)
          .empty());
  CHECK_FALSE(source_with("Calibrated between nodes: NCCL's bandwidth times 1, its latency +12 us",
                          overrides)
                  .empty());
  CHECK(source_with("no variable of NCCL's", overrides).empty());
}

}  // namespace shardsim
