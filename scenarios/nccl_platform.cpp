#include "scenarios/nccl_platform.hpp"

#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// A generation as the setting writes it, and as architectures of devices.
struct Family {
  GpuGeneration generation;
  const char* setting;
};

const Family kFamilies[] = {
    {GpuGeneration::ampere, "ampere"},
    {GpuGeneration::hopper, "hopper"},
    {GpuGeneration::blackwell, "blackwell"},
    {GpuGeneration::blackwell, "blackwell_ultra"},
};

bool is_of(const SystemSpec& system, const Family& family) {
  const bool is_set = system.network.gpu_generation != "by_device_name";
  return family.setting == (is_set ? system.network.gpu_generation : system.device.architecture);
}

GpuGeneration generation_of(const SystemSpec& system) {
  for (const Family& family : kFamilies) {
    if (is_of(system, family)) return family.generation;
  }
  throw UsageError("E0405", "NCCL's cost model has no constants for \"" + system.device.name + "\"",
                   "set system.gpu_generation to the closest of ampere, hopper and blackwell, or "
                   "system.network_model to alpha_beta");
}

NcclCorrection correction_of(const TierCorrection& tier) {
  return {.bandwidth_factor = tier.bandwidth_factor, .added_latency_us = tier.added_latency_us};
}

NcclOverrides overrides_of(const NetworkSpec& network) {
  return {.selection = NcclSelection(network.nccl_algorithms, network.nccl_protocols),
          .inside = correction_of(network.intra_node),
          .between = correction_of(network.inter_node)};
}

}  // namespace

NcclPlatform nccl_platform_of(const SystemSpec& system) {
  const NetworkSpec& network = system.network;
  NcclPlatform platform;
  platform.generation = generation_of(system);
  const int generation = at(platform.generation);
  const double one_link = nccl_constant(NcclTable::nvlink_nominal, generation);
  platform.nvlinks = system.intra_node.bandwidth_gb_per_s.map(
      [one_link](double rate) { return static_cast<int>(std::lround(rate / one_link)); });
  platform.gpus_per_node = static_cast<int>(system.gpus_per_node);
  platform.nics_per_node =
      network.nics_per_node == 0 ? platform.gpus_per_node : static_cast<int>(network.nics_per_node);
  platform.nic_gbit_per_s = system.inter_node.bandwidth_gb_per_s.map([&platform](double rate) {
    return 8.0 * rate * platform.gpus_per_node / platform.nics_per_node;
  });
  platform.pcie_generation =
      static_cast<int>(nccl_constant(NcclTable::pcie_generation, generation));
  platform.pcie_gb_per_s = network.pcie_gb_per_s;
  platform.cpu = network.cpu_vendor == "amd" ? CpuVendor::amd : CpuVendor::intel;
  platform.version = network.nccl_version == "2.28.9" ? NcclVersion::v2_28 : NcclVersion::v2_30;
  platform.overrides = overrides_of(network);
  return platform;
}

}  // namespace shardsim
