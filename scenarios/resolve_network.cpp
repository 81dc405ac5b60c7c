#include <optional>

#include "sim/kernel/error.hpp"

#include "scenarios/nccl_platform.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

// What of NCCL's model does not hold of this machine; nothing if it does.
std::optional<UsageError> misfit(const SystemSpec& system) {
  try {
    check(nccl_platform_of(system));
    return std::nullopt;
  } catch (const UsageError& error) {
    return error;
  }
}

}  // namespace

void resolve_network(Reading& r) {
  const bool knows_machine =
      r.all_good({"system.gpus_per_node", "system.gpu_generation", "system.cpu_vendor",
                  "system.nccl_version", "system.nics_per_node", "system.device.name",
                  "system.intra_node.bandwidth_gb_per_s", "system.inter_node.bandwidth_gb_per_s"});
  NetworkSpec& network = r.scenario.system.network;
  if (!r.given("system.network_model")) {
    if (!r.good("system.kernel_model")) return;
    const bool fits = knows_machine && r.scenario.system.kernel_model == "shapes" &&
                      !misfit(r.scenario.system).has_value();
    derive(r, "system.network_model", network.model, std::string(fits ? "nccl" : "alpha_beta"));
    return;
  }
  if (!r.good("system.network_model") || !network.is_nccl() || !knows_machine) return;
  if (const auto error = misfit(r.scenario.system)) {
    r.problem(error->code(), "system.network_model", error->what(), error->fix());
  }
}

}  // namespace shardsim
