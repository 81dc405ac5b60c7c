#include <catch2/catch.hpp>

#include "scenarios/nccl_platform.hpp"

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

// Two nodes of a preset, priced by NCCL's model.
NcclPlatform platform_of(const std::string& preset, std::vector<std::string> overrides = {}) {
  overrides.push_back("system.network_model=nccl");
  const std::string text = R"({"schema_version": 1, "name": "network",
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "vocab_size": 8},
    "system": {"nodes": 2, "preset": ")" +
                           preset + R"("},
    "training": {"global_batch_size": 1024, "micro_batch_size": 1, "precision": "bf16"}})";
  return nccl_platform_of(loaded(text, overrides).system);
}

}  // namespace

TEST_CASE("NCCL's model reads the machine from the system's own numbers") {
  const NcclPlatform a100 = platform_of("dgx-a100");
  CHECK(a100.generation == GpuGeneration::ampere);
  CHECK(a100.nvlinks == 12);
  CHECK(a100.nics_per_node == 8);
  CHECK(a100.nic_gbit_per_s == 200);
  CHECK(a100.pcie_generation == 4);
  CHECK(a100.cpu == CpuVendor::amd);
  CHECK(a100.version == NcclVersion::v2_30);
  const NcclPlatform h100 = platform_of("dgx-h100");
  CHECK(h100.generation == GpuGeneration::hopper);
  CHECK(h100.nvlinks == 18);
  CHECK(h100.nic_gbit_per_s == 400);
  CHECK(h100.cpu == CpuVendor::intel);
  CHECK(platform_of("dgx-h200").generation == GpuGeneration::hopper);
  CHECK(platform_of("dgx-b200").generation == GpuGeneration::blackwell);
  CHECK(platform_of("dgx-b200").nvlinks == 18);
}

TEST_CASE("fewer NICs have the same bandwidth together, and the rest is as it is set") {
  const NcclPlatform platform =
      platform_of("dgx-h100", {"system.nics_per_node=4", "system.nccl_version=2.28.9",
                               "system.gpu_generation=blackwell", "system.cpu_vendor=amd"});
  CHECK(platform.nics_per_node == 4);
  CHECK(platform.nic_gbit_per_s == 800);
  CHECK(platform.version == NcclVersion::v2_28);
  CHECK(platform.generation == GpuGeneration::blackwell);
  CHECK(platform.cpu == CpuVendor::amd);
}

TEST_CASE("a machine that NCCL's model does not know is refused with cause and fix") {
  const Problem unknown = only_problem_of(valid_text(), {"system.network_model=nccl"});
  CHECK(unknown.code == "E0405");
  CHECK(unknown.message == "NCCL's cost model has no constants for \"device\"");
  // 10 GB/s are less than half of one NVLink.
  const Problem links =
      only_problem_of(valid_text(), {"system.network_model=nccl", "system.gpu_generation=hopper",
                                     "system.intra_node.bandwidth_gb_per_s=10"});
  CHECK(links.code == "E0403");
  CHECK(links.message ==
        "NCCL's cost model cannot price this machine: the GPUs of a node are not joined by NVLink "
        "through NVSwitch");
  CHECK(problems_of(valid_text(), {"system.network_model=nccl", "system.gpu_generation=hopper"})
            .empty());
}
