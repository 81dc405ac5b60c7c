#include "backends/nccl/nccl_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

NcclLibrary::NcclLibrary(const std::string& path)
    : library_(library_names(path, "SHARDSIM_NCCL_LIB", {"libnccl.so.2"})) {
  NcclGetVersion* const get_version = functions_.get_version;
  if (get_version != nullptr && get_version(&version_) != NcclStatus::success) version_ = 0;
}

void NcclLibrary::check(NcclStatus status, const char* call, const std::string& group) const {
  if (status == NcclStatus::success || status == NcclStatus::in_progress) return;
  throw Error(ExitCode::backend_failed, "E1036",
              fmt::format("{} on \"{}\" failed: {}; {}", call, group,
                          functions_.get_error_string(status), functions_.get_last_error(nullptr)),
              "run again with NCCL_DEBUG=INFO: NCCL then prints what led to it");
}

std::string nccl_version_text(int version) {
  const int digits = version < 10000 ? 10 : 100;
  return fmt::format("{}.{}.{}", version / (100 * digits), version / 100 % digits, version % 100);
}

std::vector<std::string> nccl_of_python_packages(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code none;
    if (!fs::exists(fs::path(folder) / "python3", none)) continue;
    const fs::path prefix = fs::path(folder).parent_path();
    for (const auto& entry : fs::directory_iterator(prefix / "lib", none)) {
      if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const fs::path library = entry.path() / packages / "nvidia/nccl/lib/libnccl.so.2";
        if (fs::exists(library, none)) found.push_back(library.string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// --- Its environment ---------------------------------------------------------------------------

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
