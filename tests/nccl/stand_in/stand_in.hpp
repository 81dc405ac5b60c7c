#pragma once

#include <string>
#include <vector>

#include "backends/nccl/nccl_abi.hpp"

// A library with the functions of NCCL and of the CUDA runtime that shardsim calls. It records the
// calls and checks the demands of their documentation: order, grouping, lifetimes, no calls while a
// communicator is in progress. It carries out the collectives between the ranks of one thread, in
// the order of additions of NCCL's ring. Device memory is the host's. It knows neither timing, nor
// whether NCCL really is as documented.
namespace shardsim::stand_in {

/// The answers of the stand-in. Every reset() goes back to these.
struct Script {
  int version = 22809;
  int num_devices = 8;
  int driver_version = 13000;
  CudaStatus device_count_status = CudaStatus::success;
  /// The answer of ncclCommInitRankConfig.
  NcclStatus init_status = NcclStatus::success;
  /// A communicator is in progress for so many polls after each call on it.
  int polls_in_progress = 2;
  /// Launched kernels of all ranks together until this happens; -1: never.
  int kernels_before_error = -1;
  NcclStatus asynchronous_error = NcclStatus::remote_error;
  int kernels_before_hang = -1;
  /// A rank that never joins in forming and splitting communicators; -1: all do.
  int missing_rank = -1;
  /// A function of the CUDA runtime that fails, by its name.
  std::string failing_cuda_function;
  /// A collective or message of NCCL that is refused, by its name.
  std::string failing_nccl_function;
};

struct Live {
  int allocations = 0;
  int streams = 0;
  int events = 0;
  int communicators = 0;
};

#define SHARDSIM_STAND_IN __attribute__((visibility("default")))

/// Forgets everything. Handles from before are no longer valid.
SHARDSIM_STAND_IN void reset();
[[nodiscard]] SHARDSIM_STAND_IN Script& script();
/// NCCL's calls in order, "1 ncclAllReduce count=12 type=7 op=0": rank of the communicator, name.
[[nodiscard]] SHARDSIM_STAND_IN const std::vector<std::string>& calls();
/// The mistakes of the callers.
[[nodiscard]] SHARDSIM_STAND_IN const std::vector<std::string>& violations();
/// The resources that have not been given back.
[[nodiscard]] SHARDSIM_STAND_IN Live live();
/// The file of this library.
[[nodiscard]] SHARDSIM_STAND_IN std::string path();

}  // namespace shardsim::stand_in
