#pragma once

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/nccl/overrides.hpp"

// The machine data of NCCL's model, and the placement of a group of ranks on it. Nodes are alike.
// NVLink through NVSwitch joins the GPUs of a node, or there is one GPU.
namespace shardsim {

struct NcclPlatform {
  GpuGeneration generation = GpuGeneration::hopper;
  Tracked<int> nvlinks = 18;  ///< NVLinks of one GPU.
  bool nvswitch = true;
  int gpus_per_node = 8;
  int nics_per_node = 8;
  Tracked<double> nic_gbit_per_s = 400;
  int pcie_generation = 5;  ///< Between a GPU and its NIC, x16,
  /// and its bandwidth, GB/s and direction; 0: the table's value for the generation.
  Tracked<double> pcie_gb_per_s = 0.0;
  bool nic_beside_gpu = true;  ///< Under one PCIe switch: LL128 needs it.
  CpuVendor cpu = CpuVendor::intel;
  NcclVersion version = NcclVersion::v2_30;
  NcclOverrides overrides;
};

/// Refuses machines without constants in the model (E0403): several GPUs in a node without
/// NVSwitch, an unknown generation of PCIe, no links or NICs, or a NIC speed outside its search.
/// Throws UsageError with the cause and the fix.
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

[[nodiscard]] NcclPlacement placement_of(const GroupLayout& layout);

}  // namespace shardsim
