#include "sim/kernel/error.hpp"

#include "scenarios/nccl_platform.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

void resolve_network(Reading& r) {
  if (!r.good("system.network_model") || !r.scenario.system.network.is_nccl()) return;
  if (!r.all_good({"system.gpus_per_node", "system.gpu_generation", "system.cpu_vendor",
                   "system.nccl_version", "system.nics_per_node", "system.device.name",
                   "system.intra_node.bandwidth_gb_per_s",
                   "system.inter_node.bandwidth_gb_per_s"})) {
    return;
  }
  try {
    check(nccl_platform_of(r.scenario.system));
  } catch (const UsageError& error) {
    r.problem(error.code(), "system.network_model", error.what(), error.fix());
  }
}

}  // namespace shardsim
