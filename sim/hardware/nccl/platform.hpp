#pragma once

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/nccl/overrides.hpp"

// What NCCL's model asks of a machine, and how a group of ranks lies on it. Nodes are alike; the
// GPUs of a node are joined by NVLink through NVSwitch, or there is one.
namespace shardsim {

struct NcclPlatform {
  GpuGeneration generation = GpuGeneration::hopper;
  Tracked<int> nvlinks = 18;  ///< NVLinks of one GPU.
  bool nvswitch = true;
  int gpus_per_node = 8;
  int nics_per_node = 8;
  Tracked<double> nic_gbit_per_s = 400;
  int pcie_generation = 5;  ///< Between a GPU and its NIC, x16,
  /// and what it carries, GB/s and direction; 0: what the table says of the generation.
  Tracked<double> pcie_gb_per_s = 0.0;
  bool nic_beside_gpu = true;  ///< Under one PCIe switch: what LL128 asks for.
  CpuVendor cpu = CpuVendor::intel;
  NcclVersion version = NcclVersion::v2_30;
  NcclOverrides overrides;
};

/// Refuses what the model has no constants for (E0403): more than one GPU in a node without
/// NVSwitch, an unknown generation of PCIe, no links or NICs, or NICs that its search has no speed
/// for. Throws UsageError with the cause and the fix.
void check(const NcclPlatform& platform);

/// All of one GPU's NVLinks, GB/s and direction.
[[nodiscard]] Tracked<double> nvlink_bandwidth(const NcclPlatform& platform);
/// From a GPU to the wire through one NIC: NIC or PCIe, whichever is slower. GB/s and direction.
[[nodiscard]] Tracked<double> nic_bandwidth(const NcclPlatform& platform);

/// Bandwidth between a GPU and its NIC, GB/s and direction.
[[nodiscard]] Tracked<double> pcie_bandwidth(const NcclPlatform& platform);

/// How a group lies on the nodes. Between nodes the node with the fewest members, or NICs, decides.
struct NcclPlacement {
  int ranks = 1;
  int nodes = 1;
  int gpus = 1;  ///< Fewest members on one node.
  int nics = 1;  ///< Fewest NICs of one node that its members are next to.

  [[nodiscard]] bool one_gpu_per_node() const { return nodes == ranks; }
};

/// A group of all GPUs of `nodes` nodes.
[[nodiscard]] NcclPlacement full_nodes(const NcclPlatform& platform, int nodes);

[[nodiscard]] NcclPlacement placement_of(const GroupLayout& layout);

}  // namespace shardsim
