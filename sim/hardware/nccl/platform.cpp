#include "sim/hardware/nccl/platform.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr int kFirstPcieGeneration = 3;

// NCCL has Mbit/s and divides by 8000.
double gbytes_of(double gbit) { return gbit / 8.0; }

double slowest_speed(const NcclPlatform& platform) {
  double slowest = 0.0;
  const NcclConstants& speeds = nccl_table(NcclTable::speeds_between);
  for (int i = 0; i < speeds.size[2]; ++i) {
    const double speed =
        nccl_constant(NcclTable::speeds_between, at(platform.version), at(platform.generation), i);
    if (speed > 0.0) slowest = speed;
  }
  return slowest;
}

[[noreturn]] void refuse(const std::string& what, const std::string& fix) {
  throw UsageError("E0403", "NCCL's cost model cannot price this machine: " + what, fix);
}

}  // namespace

void check(const NcclPlatform& platform) {
  if (platform.gpus_per_node < 1 || platform.nics_per_node < 1) {
    refuse("a node has no GPU or no NIC", "give both, at least 1");
  }
  if (platform.gpus_per_node > 1 && (!platform.nvswitch || platform.nvlinks < 1)) {
    refuse("the GPUs of a node are not joined by NVLink through NVSwitch",
           "choose the alpha_beta model, which needs only the bandwidth and latency of a link");
  }
  const int generations = nccl_table(NcclTable::pcie).size[0];
  if (platform.pcie_generation < kFirstPcieGeneration ||
      platform.pcie_generation >= kFirstPcieGeneration + generations) {
    refuse(fmt::format("PCIe generation {} is not in its tables", platform.pcie_generation),
           fmt::format("give one of {} to {}", kFirstPcieGeneration,
                       kFirstPcieGeneration + generations - 1));
  }
  if (!(nic_bandwidth(platform) >= slowest_speed(platform))) {
    refuse(fmt::format("a NIC of {} Gbit/s is slower than the slowest channel it knows, {} GB/s",
                       platform.nic_gbit_per_s, slowest_speed(platform)),
           "choose the alpha_beta model");
  }
}

double nvlink_bandwidth(const NcclPlatform& platform) {
  return platform.nvlinks * nccl_constant(NcclTable::nvlink, at(platform.generation));
}

double nic_bandwidth(const NcclPlatform& platform) {
  return std::min(gbytes_of(platform.nic_gbit_per_s),
                  nccl_constant(NcclTable::pcie, platform.pcie_generation - kFirstPcieGeneration));
}

NcclPlacement full_nodes(const NcclPlatform& platform, int nodes) {
  return {.ranks = nodes * platform.gpus_per_node,
          .nodes = nodes,
          .gpus = platform.gpus_per_node,
          .nics = platform.nics_per_node};
}

NcclPlacement placement_of(const GroupLayout& layout) {
  return {
      .ranks = layout.size(), .nodes = layout.num_nodes, .gpus = layout.rails, .nics = layout.nics};
}

}  // namespace shardsim
