#pragma once

#include <climits>
#include <cstddef>

#include "backends/nccl/cuda_abi.hpp"

// The part of NCCL's binary interface that shardsim uses, stable since 2.18. It is declared here so
// that the build needs nothing of NCCL. tests/nccl/header_check.cpp compares it with the real
// header.
namespace shardsim {

/// ncclResult_t.
enum class NcclStatus : unsigned int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,  ///< For a non-blocking communicator: not an error.
};

/// ncclDataType_t.
enum class NcclDataType : unsigned int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

/// ncclRedOp_t. Its average is not used: it multiplies before it adds, which gives other bits.
enum class NcclReduceOp : unsigned int { sum = 0, product = 1, max = 2, min = 3 };

struct NcclCommObject;
using NcclComm = NcclCommObject*;

struct NcclUniqueId {
  char bytes[128];
};

/// ncclConfig_t as of 2.18, the beginning of every later one: the library reads as much as `size`
/// says, and takes what is newer than `version` as undefined.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = INT_MIN;  ///< INT_MIN and null: the library's choice.
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;  ///< Since 2.27; padding before.
};

// Functions, by their names.
using NcclGetVersion = NcclStatus(int* version);
using NcclGetUniqueId = NcclStatus(NcclUniqueId* id);
using NcclCommInitRankConfig = NcclStatus(NcclComm* comm, int size, NcclUniqueId id, int rank,
                                          NcclConfig* config);
using NcclCommSplit = NcclStatus(NcclComm parent, int color, int key, NcclComm* comm,
                                 NcclConfig* config);
using NcclCommFinalize = NcclStatus(NcclComm comm);
using NcclCommDestroy = NcclStatus(NcclComm comm);
using NcclCommAbort = NcclStatus(NcclComm comm);
using NcclCommGetAsyncError = NcclStatus(NcclComm comm, NcclStatus* status);
using NcclCommQuery = NcclStatus(NcclComm comm, int* value);  ///< Count and user rank.
using NcclGetErrorString = const char*(NcclStatus status);
using NcclGetLastError = const char*(NcclComm comm);
using NcclGroup = NcclStatus();  ///< Start and end.
using NcclAllReduce = NcclStatus(const void* send, void* receive, std::size_t count,
                                 NcclDataType type, NcclReduceOp op, NcclComm comm,
                                 CudaStream stream);
using NcclReduceScatter = NcclAllReduce;  ///< `count`: of what is received.
using NcclAllGather = NcclStatus(const void* send, void* receive, std::size_t send_count,
                                 NcclDataType type, NcclComm comm, CudaStream stream);
using NcclBroadcast = NcclStatus(const void* send, void* receive, std::size_t count,
                                 NcclDataType type, int root, NcclComm comm, CudaStream stream);
using NcclReduce = NcclStatus(const void* send, void* receive, std::size_t count, NcclDataType type,
                              NcclReduceOp op, int root, NcclComm comm, CudaStream stream);
using NcclSend = NcclStatus(const void* send, std::size_t count, NcclDataType type, int peer,
                            NcclComm comm, CudaStream stream);
using NcclReceive = NcclStatus(void* receive, std::size_t count, NcclDataType type, int peer,
                               NcclComm comm, CudaStream stream);

}  // namespace shardsim
