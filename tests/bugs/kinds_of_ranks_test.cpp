#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/folding_fixture.hpp"

// The memory of a stage was that of its first rank, although another rank of the stage may have its
// neighbours on other nodes, and so more of NCCL's buffers.
namespace shardsim::test {

namespace {

// Three stages of four ranks on nodes of six. The head's stage, ranks 8 to 11, is the fullest. Rank
// 8's neighbour in the stage before is on another node, that of rank 10 is on its own.
Result planned_on(const std::string& memory_bytes) {
  return planned(
      small_plan("llama"),
      {"system.nodes=2", "system.gpus_per_node=6", "parallelism.pp=3",
       "training.global_batch_size=12", "model.vocab_size=200000", "parallelism.schedule=gpipe",
       "system.device.memory_gib=" + std::to_string(std::stod(memory_bytes) / 0x1p30)},
      "auto");
}

std::string detail_of_memory(const Result& result) {
  const auto check = std::find_if(result.checks.begin(), result.checks.end(),
                                  [](const Check& each) { return each.name == "memory"; });
  REQUIRE(check != result.checks.end());
  return check->detail;
}

}  // namespace

TEST_CASE("a plan does not fit if any rank of a stage does not") {
  const Result ample = planned_on("8e10");
  REQUIRE(ample.exit_code == 0);
  const double needed = ample.number("memory.device_bytes.max").value_or(0);
  const Result tight = planned_on(std::to_string(needed - 1e6));
  CHECK(tight.exit_code == 3);
  // The first rank of each stage fits.
  const std::string detail = detail_of_memory(tight);
  INFO(detail);
  CHECK(detail.rfind("rank 10 needs", 0) == 0);
}

}  // namespace shardsim::test
