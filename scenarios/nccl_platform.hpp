#pragma once

#include "sim/hardware/nccl/platform.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// What NCCL's cost model asks of the machine. NVLinks are counted by the intra_node bandwidth, the
/// generation of PCIe follows from that of the GPU where no bandwidth of it is given, and the NICs
/// share the inter_node bandwidth. Throws UsageError E0405 where the GPU is none that the model has
/// constants for, E0406 where system.nccl is no selection; check() of the platform does so for the
/// rest.
[[nodiscard]] NcclPlatform nccl_platform_of(const SystemSpec& system);

}  // namespace shardsim
