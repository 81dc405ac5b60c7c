#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// A plan "fitted" if its tensors did, although the device could not hold its CUDA context, too.
namespace shardsim::test {

TEST_CASE("a plan whose tensors fit and whose context does not ends with 3") {
  const auto planned = [](const char* gib) {
    return run_scenario(load_scenario("scenarios/quickstart.json",
                                      {std::string("system.device.memory_gib=") + gib}))
        .result;
  };
  // 42.3 GiB of tensors, and 2.2 GiB beside them.
  const Result tight = planned("43");
  REQUIRE(tight.number("memory.peak_bytes.max").value_or(0) < 43 * 0x1p30);
  CHECK(tight.exit_code == 3);
  CHECK(planned("80").exit_code == 0);
}

}  // namespace shardsim::test
