#include <optional>

#include "sim/kernel/error.hpp"

#include "scenarios/nccl_platform.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

// The conflict of this machine with NCCL's model; nothing if there is none.
std::optional<UsageError> misfit(const SystemSpec& system) {
  try {
    check(nccl_platform_of(system));
    return std::nullopt;
  } catch (const UsageError& error) {
    return error;
  }
}

// Whether both lists can be read. Errors are reported at their fields.
bool check_selection(Reading& r) {
  bool good = true;
  const NetworkSpec& network = r.scenario.system.network;
  const auto check_list = [&](const char* path, const std::string& algorithms,
                              const std::string& protocols) {
    try {
      if (r.good(path)) NcclSelection(algorithms, protocols);
    } catch (const UsageError& error) {
      r.problem(error.code(), path, error.what(), error.fix());
      good = false;
    }
  };
  check_list("system.nccl.algorithms", network.nccl_algorithms, "");
  check_list("system.nccl.protocols", "", network.nccl_protocols);
  return good;
}

// Users would trust a calibration without effect: it is refused, not warned about. A preset may
// bring one to a scenario that then asks for another model.
void refuse_without_nccl(Reading& r) {
  if (!r.good("system.network_model") || r.scenario.system.network.is_nccl()) return;
  const Scenario untouched;
  for (const Field& field : field_table()) {
    const bool ours = field.path.rfind("system.nccl.", 0) == 0 && field.get != nullptr;
    if (!ours || !written_by_user(r.fields[field.path])) continue;
    if (field.get(r.scenario) == field.get(untouched)) continue;
    r.problem("E0408", field.path,
              field.path + " acts on NCCL's prices, and system.network_model is " +
                  r.scenario.system.network.model,
              "set system.network_model to nccl, or leave it out");
  }
}

constexpr const char* kPcie = "system.pcie_gb_per_s";

// REQUIRES: the machine has no problems.
void resolve_pcie(Reading& r) {
  NetworkSpec& network = r.scenario.system.network;
  if (!network.is_nccl() || r.given(kPcie)) return;
  const NcclPlatform platform = nccl_platform_of(r.scenario.system);
  derive(r, kPcie, network.pcie_gb_per_s, pcie_bandwidth(platform).peek());
  r.fields[kPcie].source = "x16 of PCIe generation " + std::to_string(platform.pcie_generation) +
                           ", which the GPU has, in NCCL's table of bandwidths";
}

void resolve_network_model(Reading& r, bool selects) {
  const bool knows_machine =
      selects && (r.good(kPcie) || !r.given(kPcie)) &&
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

}  // namespace

void resolve_network(Reading& r) {
  const bool selects = check_selection(r);
  resolve_network_model(r, selects);
  if (r.problems.empty()) resolve_pcie(r);
  if (selects) refuse_without_nccl(r);
}

}  // namespace shardsim
