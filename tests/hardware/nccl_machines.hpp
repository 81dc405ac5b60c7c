#pragma once

#include "sim/kernel/time.hpp"

#include "sim/hardware/nccl/platform.hpp"

// The machines that NCCL's check values are told for: 8 GPUs and 8 NICs per node.
namespace shardsim::testing {

/// As NCCL's model turns its microseconds into a time: to the last bit.
inline Time from_us(double microseconds) { return Time::from_seconds(microseconds / 1e6); }

/// 8 x 200 Gbit/s, PCIe 4, AMD.
inline NcclPlatform dgx_a100() {
  NcclPlatform platform;
  platform.generation = GpuGeneration::ampere;
  platform.nvlinks = 12;
  platform.nic_gbit_per_s = 200;
  platform.pcie_generation = 4;
  platform.cpu = CpuVendor::amd;
  return platform;
}

/// 8 x 400 Gbit/s, PCIe 5, Intel.
inline NcclPlatform dgx_h100() { return {}; }

/// 8 x 400 Gbit/s, PCIe 5, Intel.
inline NcclPlatform dgx_b200() {
  NcclPlatform platform;
  platform.generation = GpuGeneration::blackwell;
  return platform;
}

/// One GPU per process that takes itself for a node, over `lo`, for which NCCL assumes 10 Gbit/s.
inline NcclPlatform one_gpu_on_lo() {
  NcclPlatform platform;
  platform.gpus_per_node = 1;
  platform.nics_per_node = 1;
  platform.nic_gbit_per_s = 10;
  platform.nic_beside_gpu = false;
  return platform;
}

}  // namespace shardsim::testing
