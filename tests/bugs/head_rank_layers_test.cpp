#include <algorithm>

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

}  // namespace shardsim::test
