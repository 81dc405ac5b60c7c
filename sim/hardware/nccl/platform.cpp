#include "sim/hardware/nccl/platform.hpp"

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
  const ReadLog::Scope nothing_is_priced(nullptr);
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
  if (nic_bandwidth(platform) >= slowest_speed(platform)) return;
  const bool is_pcie = pcie_bandwidth(platform) < gbytes_of(platform.nic_gbit_per_s);
  refuse(fmt::format("{} is slower than the slowest channel it knows, {} GB/s",
                     is_pcie ? fmt::format("PCIe of {} GB/s", pcie_bandwidth(platform).peek())
                             : fmt::format("a NIC of {} Gbit/s", platform.nic_gbit_per_s.peek()),
                     slowest_speed(platform)),
         "choose the alpha_beta model");
}

Tracked<double> nvlink_bandwidth(const NcclPlatform& platform) {
  const double one = nccl_constant(NcclTable::nvlink, at(platform.generation));
  return platform.nvlinks.map([one](int links) { return links * one; });
}

Tracked<double> nic_bandwidth(const NcclPlatform& platform) {
  return smaller_of(platform.nic_gbit_per_s.map(gbytes_of), pcie_bandwidth(platform));
}

Tracked<double> pcie_bandwidth(const NcclPlatform& platform) {
  if (platform.pcie_gb_per_s.peek() > 0.0) return platform.pcie_gb_per_s;
  return nccl_constant(NcclTable::pcie, platform.pcie_generation - kFirstPcieGeneration);
}

NcclPlacement placement_of(const GroupLayout& layout) {
  return {
      .ranks = layout.size(), .nodes = layout.num_nodes, .gpus = layout.rails, .nics = layout.nics};
}

}  // namespace shardsim
