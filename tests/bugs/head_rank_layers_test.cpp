#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"

// The remainder of layers over V-shaped chunks went first to the rank with embedding and head. All
// other ranks then waited for it.
namespace shardsim::test {

TEST_CASE("the rank of the head has no more layers than it must") {
  const auto split = [](const char* schedule) {
    return load_scenario(
               "scenarios/quickstart.json",
               {"model.num_layers=14", "system.nodes=1", "parallelism.pp=4", "parallelism.vpp=2",
                "parallelism.zero_stage=0", std::string("parallelism.schedule=") + schedule})
        .parallelism.stage_layers;
  };
  CHECK(split("zb_v") == std::vector<std::int64_t>{1, 2, 2, 2, 2, 2, 2, 1});
  CHECK(split("interleaved_1f1b") == std::vector<std::int64_t>{2, 2, 2, 1, 2, 2, 2, 1});
}

TEST_CASE("the layers of DeepSeek-V3 leave no rank but the head's with two") {
  const std::vector<std::int64_t> layers =
      load_scenario("scenarios/quickstart.json",
                    {"model.num_layers=61", "system.nodes=2", "parallelism.pp=16",
                     "parallelism.vpp=2", "parallelism.zero_stage=0", "parallelism.schedule=zb_v"})
          .parallelism.stage_layers;
  REQUIRE(layers.size() == 32);
  std::vector<std::int64_t> of_rank;
  for (std::size_t rank = 0; rank < 16; ++rank) {
    of_rank.push_back(layers[rank] + layers[31 - rank]);
  }
  CHECK(of_rank.front() == 2);
  CHECK(*std::max_element(of_rank.begin(), of_rank.end()) == 4);
  CHECK(std::count(of_rank.begin(), of_rank.end(), 4) == 14);
}

}  // namespace shardsim::test
