#include "sim/hardware/nccl/platform.hpp"

#include <algorithm>
#include <map>
#include <set>
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

// NICs next to one GPU: `first` and how many from there on.
struct NicRange {
  int first = 0;
  int count = 1;
};

NicRange nics_of(const NcclPlatform& platform, int gpu) {
  const int gpus = platform.gpus_per_node;
  return {.first = gpu * platform.nics_per_node / gpus,
          .count = std::max(1, platform.nics_per_node / gpus)};
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

NcclPlacement placement_of(const NcclPlatform& platform, const GroupLayout& layout) {
  std::map<int, std::set<int>> nics_on_node;
  for (int member = 0; member < layout.size(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    const NicRange near = nics_of(platform, layout.members[index] % platform.gpus_per_node);
    for (int nic = near.first; nic < near.first + near.count; ++nic) {
      nics_on_node[layout.node[index]].insert(nic);
    }
  }
  int fewest = platform.nics_per_node;
  for (const auto& [_, nics] : nics_on_node)
    fewest = std::min(fewest, static_cast<int>(nics.size()));
  return {.ranks = layout.size(), .nodes = layout.num_nodes, .gpus = layout.rails, .nics = fewest};
}

}  // namespace shardsim
