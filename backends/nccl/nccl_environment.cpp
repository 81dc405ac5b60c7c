#include "backends/nccl/nccl_environment.hpp"

#include <cstdlib>

#include <unistd.h>

namespace shardsim {

EnvironmentMap nccl_environment(const NcclSetting& setting, const EnvironmentMap& present) {
  EnvironmentMap wanted = {
      // Communicators are launched in the order in which one thread calls (2.26 and newer).
      {"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
      {"NCCL_DEBUG", "WARN"},
      {"NCCL_RAS_ENABLE", "0"},  // Its keep-alive messages would be counted.
  };
  if (setting.profile) wanted["NCCL_PROFILER_PLUGIN"] = "STATIC_PLUGIN";
  if (setting.exact_volume) {
    wanted["NCCL_ALGO"] = "Ring";
    wanted["NCCL_PROTO"] = "Simple";
    wanted["NCCL_PAT_ENABLE"] = "0";
  }
  if (shares_gpus(setting)) {
    const EnvironmentMap one_machine_per_rank = {
        {"NCCL_HOSTID", setting.job + "-r" + std::to_string(setting.rank)},
        {"NCCL_NET", "Socket"},
        {"NCCL_NET_PLUGIN", "none"},
        {"NCCL_IB_DISABLE", "1"},
        {"NCCL_SOCKET_IFNAME", "=lo"},  // The sign: exactly this name.
        {"NCCL_SOCKET_FAMILY", "AF_INET"},
        {"NCCL_MNNVL_ENABLE", "0"},  // Would join those "machines" again.
        {"NCCL_P2P_DISABLE", "1"},
        {"NCCL_SHM_DISABLE", "1"},
        {"NCCL_NVLS_ENABLE", "0"},
        {"NCCL_COLLNET_ENABLE", "0"},
        {"NCCL_CUMEM_HOST_ENABLE", "0"},
        {"NCCL_MAX_CTAS", "1"},
    };
    wanted.insert(one_machine_per_rank.begin(), one_machine_per_rank.end());
  }
  for (const auto& [name, value] : present) wanted.erase(name);
  return wanted;
}

EnvironmentMap nccl_variables_in_force() {
  EnvironmentMap found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t sign = text.find('=');
    const std::string name = text.substr(0, sign);
    if (sign == std::string::npos) continue;
    if (name.rfind("NCCL_", 0) == 0 || name == "CUDA_VISIBLE_DEVICES") {
      found[name] = text.substr(sign + 1);
    }
  }
  return found;
}

void set_environment(const EnvironmentMap& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace shardsim
