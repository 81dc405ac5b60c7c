#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/nccl/cuda_library.hpp"
#include "backends/nccl/nccl_abi.hpp"

namespace shardsim {

/// NCCL's functions, looked up while the program runs.
struct NcclFunctions {
  DynamicLibrary& library;
  NcclGetVersion* get_version = library.require("ncclGetVersion");
  NcclGetUniqueId* get_unique_id = library.require("ncclGetUniqueId");
  NcclCommInitRankConfig* comm_init_rank_config = library.require("ncclCommInitRankConfig");
  NcclCommSplit* comm_split = library.require("ncclCommSplit");
  NcclCommFinalize* comm_finalize = library.require("ncclCommFinalize");
  NcclCommDestroy* comm_destroy = library.require("ncclCommDestroy");
  NcclCommAbort* comm_abort = library.require("ncclCommAbort");
  NcclCommGetAsyncError* comm_get_async_error = library.require("ncclCommGetAsyncError");
  NcclCommQuery* comm_count = library.require("ncclCommCount");
  NcclCommQuery* comm_user_rank = library.require("ncclCommUserRank");
  NcclGetErrorString* get_error_string = library.require("ncclGetErrorString");
  NcclGetLastError* get_last_error = library.require("ncclGetLastError");
  NcclGroup* group_start = library.require("ncclGroupStart");
  NcclGroup* group_end = library.require("ncclGroupEnd");
  NcclAllReduce* all_reduce = library.require("ncclAllReduce");
  NcclReduceScatter* reduce_scatter = library.require("ncclReduceScatter");
  NcclAllGather* all_gather = library.require("ncclAllGather");
  NcclBroadcast* broadcast = library.require("ncclBroadcast");
  NcclReduce* reduce = library.require("ncclReduce");
  NcclSend* send = library.require("ncclSend");
  NcclReceive* receive = library.require("ncclRecv");
};

/// Opens NCCL: `path` if given (--nccl-lib), else SHARDSIM_NCCL_LIB, else libnccl.so.2 where the
/// loader finds it.
class NcclLibrary {
 public:
  /// 2.18, the first with ncclCommSplit.
  static constexpr int kOldestVersion = 21800;

  explicit NcclLibrary(const std::string& path = {});

  [[nodiscard]] const DynamicLibrary& library() const { return library_; }
  /// As ncclGetVersion gives it, 22809 for 2.28.9; 0 where there is none.
  [[nodiscard]] int version() const { return version_; }
  /// Open, with all functions, and new enough.
  [[nodiscard]] bool usable() const {
    return library_.is_open() && library_.missing().empty() && version_ >= kOldestVersion;
  }
  [[nodiscard]] const NcclFunctions& functions() const { return functions_; }
  /// Throws Error (E1036) that names the call and NCCL's reason, unless `status` is success or in
  /// progress. `group`: the communicator's name.
  void check(NcclStatus status, const char* call, const std::string& group) const;

 private:
  DynamicLibrary library_;
  NcclFunctions functions_{library_};
  int version_ = 0;
};

/// "2.28.9". Versions before 2.9 are of four digits.
[[nodiscard]] std::string nccl_version_text(int version);

/// Paths of libnccl.so.2 in Python's packages, beside the interpreters in `path` (as in PATH): a
/// hint for messages only.
[[nodiscard]] std::vector<std::string> nccl_of_python_packages(const std::string& path);

// --- Its environment ---------------------------------------------------------------------------
// NCCL has to find some variables in a rank's environment. Set them before any function of NCCL is
// called: it reads each of them once.

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
