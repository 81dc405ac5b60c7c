#pragma once

#include <map>
#include <string>

// Which variables NCCL has to find in a rank's environment. Set them before any function of NCCL is
// called: it reads each of them once.
namespace shardsim {

struct NcclSetting {
  int num_ranks = 1;         ///< Processes of the run on this machine.
  int num_visible_gpus = 1;  ///< On this machine.
  int rank = 0;
  std::string job;  ///< Any name that no other run on this machine has.
  /// Bytes on the wire as the formulas say: one algorithm and protocol for all sizes.
  bool exact_volume = false;
  /// Run the profiler plugin inside this program (profiler_plugin.hpp).
  bool profile = true;
};

using EnvironmentMap = std::map<std::string, std::string>;

/// Variables to set, given those that `present` has: the user's settings stay. With more ranks than
/// GPUs, each process becomes a machine of its own to NCCL (NCCL_HOSTID), which otherwise refuses
/// two ranks on one GPU. Messages then go through sockets of the loopback interface. REQUIRES: one
/// process per rank.
[[nodiscard]] EnvironmentMap nccl_environment(const NcclSetting& setting,
                                              const EnvironmentMap& present);

/// Whether ranks share GPUs, so that times mean nothing.
[[nodiscard]] inline bool shares_gpus(const NcclSetting& setting) {
  return setting.num_ranks > setting.num_visible_gpus;
}

/// The variables of this process that begin with "NCCL_", and CUDA_VISIBLE_DEVICES: what is in
/// force, for reports. Files that NCCL also reads (/etc/nccl.conf) are not in it.
[[nodiscard]] EnvironmentMap nccl_variables_in_force();

/// Sets them in this process. REQUIRES: one thread.
void set_environment(const EnvironmentMap& variables);

}  // namespace shardsim
