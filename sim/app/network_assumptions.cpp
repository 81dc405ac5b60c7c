#include "sim/app/network_assumptions.hpp"

#include <fmt/format.h>

#include "scenarios/nccl_platform.hpp"

namespace shardsim {

namespace {

std::string choice_text(const NcclSelection& selection) {
  if (selection.algorithms().empty() && selection.protocols().empty()) {
    return "no tuner plugin and no variable of NCCL's changes its choice";
  }
  const auto words = [](const std::string& list) {
    return list.empty() ? std::string("all") : "\"" + list + "\"";
  };
  return fmt::format("NCCL chooses from the algorithms {} and the protocols {}",
                     words(selection.algorithms()), words(selection.protocols()));
}

// Where the numbers come from stands with the other sources of the scenario.
void add_correction(std::vector<Assumption>& assumptions, const char* where,
                    const NcclCorrection& correction) {
  if (correction.bandwidth_factor == 1.0 && correction.added_latency_us == 0.0) return;
  assumptions.push_back(
      {fmt::format("Calibrated {}: NCCL's bandwidth times {}, its latency {:+} us; its choices are "
                   "as without",
                   where, correction.bandwidth_factor.peek(), correction.added_latency_us.peek()),
       "system.nccl of the scenario; docs/decisions/0037-calibration.md"});
}

std::vector<Assumption> nccl(const SystemSpec& system) {
  const NcclPlatform platform = nccl_platform_of(system);
  std::vector<Assumption> assumptions = {
      {fmt::format("Communication costs what NCCL {} expects of the algorithm and protocol that it "
                   "chooses, on {} GPUs with {} NVLinks and {} NICs of {} Gbit/s per node, and "
                   "CPUs of {}; operations on different communicators do not slow each other or "
                   "the compute stream",
                   name_of(platform.version), name_of(platform.generation), platform.nvlinks.peek(),
                   platform.nics_per_node, platform.nic_gbit_per_s.peek(),
                   platform.cpu == CpuVendor::amd ? "AMD" : "Intel"),
       "NCCL's cost model; docs/decisions/0031-nccl-model.md"},
      {"Reductions are sums of a type that NVSwitch adds; " +
           choice_text(platform.overrides.selection) + "; SHARP in the network is off",
       platform.overrides.selection.algorithms().empty() &&
               platform.overrides.selection.protocols().empty()
           ? "NCCL's defaults"
           : "system.nccl of the scenario"},
      {"Bytes are counted as a ring's where NCCL takes Ring, NVLS or PAT, and as a tree's where it "
       "takes Tree or NVLSTree",
       "modelling choice; NVSwitch moves fewer"},
      {"Messages between nodes share the NICs with those of all other GPUs of the node, and with "
       "nothing else",
       "modelling choice"},
  };
  add_correction(assumptions, "within a node", platform.overrides.inside);
  add_correction(assumptions, "between nodes", platform.overrides.between);
  if (system.network.nodes_per_pod > 0) {
    assumptions.push_back(
        {fmt::format("Groups of several pods of {} nodes take {} times as long for their bytes",
                     system.network.nodes_per_pod, system.network.oversubscription.peek()),
         "modelling choice: every pod's links to the others are full"});
  }
  return assumptions;
}

}  // namespace

std::vector<Assumption> price_of_communication(const Scenario& scenario) {
  if (scenario.system.network.is_nccl()) return nccl(scenario.system);
  return {
      {"Communication costs alpha + bytes / beta per step of a ring or tree; operations on "
       "different communicators do not slow each other or the compute stream",
       "modelling choice"},
  };
}

std::vector<Assumption> constants_of_communication(const Scenario& scenario) {
  std::vector<Assumption> assumptions;
  if (!scenario.system.network.is_nccl()) return assumptions;
  for (const NcclConstants& constants : nccl_tables()) {
    assumptions.push_back({"NCCL: " + words_of(constants), constants.source});
  }
  return assumptions;
}

}  // namespace shardsim
