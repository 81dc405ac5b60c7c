#pragma once

#include "sim/hardware/nccl/platform.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// The machine data for NCCL's cost model. The intra_node bandwidth gives the number of NVLinks.
/// The generation of PCIe follows from that of the GPU if no PCIe bandwidth is given, and the NICs
/// share the inter_node bandwidth. Throws UsageError E0405 if the model has no constants for the
/// GPU, E0406 if system.nccl is no valid selection. The platform's check() tests the rest.
[[nodiscard]] NcclPlatform nccl_platform_of(const SystemSpec& system);

}  // namespace shardsim
