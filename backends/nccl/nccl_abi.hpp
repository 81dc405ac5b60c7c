#pragma once

#include <climits>
#include <cstddef>

// The parts of the binary interfaces of the CUDA runtime and of NCCL (stable since 2.18) that
// shardsim uses. They are declared here so that the build needs nothing of either.
// tests/nccl/header_check.cpp compares them with the real headers.
namespace shardsim {

// --- CUDA --------------------------------------------------------------------------------------

/// cudaError_t. Other values exist: name them with CudaFunctions::error_name.
enum class CudaStatus : unsigned int {
  success = 0,
  stub_library = 34,         ///< The toolkit's stand-in for the driver is on the library path.
  insufficient_driver = 35,  ///< No driver, or one older than the runtime.
  no_device = 100,
  not_ready = 600,  ///< Answer to a query: not an error.
};

/// cudaMemcpyKind.
enum class CudaCopyKind : unsigned int { host_to_device = 1, device_to_host = 2 };

struct CudaStreamObject;
struct CudaEventObject;
using CudaStream = CudaStreamObject*;
using CudaEvent = CudaEventObject*;

/// Streams that do not wait for the default stream, and events without time stamps.
inline constexpr unsigned int kCudaStreamNonBlocking = 0x01;
inline constexpr unsigned int kCudaEventDisableTiming = 0x02;

/// cudaDeviceProp grows from release to release; its first member has been the name in all. Room
/// for any of them.
struct alignas(16) CudaDeviceProperties {
  char name[256];
  char rest[7936];
};

// Functions, by their names.
using CudaGetDeviceCount = CudaStatus(int* count);
using CudaDriverGetVersion = CudaStatus(int* version);
using CudaRuntimeGetVersion = CudaStatus(int* version);
using CudaGetDeviceProperties = CudaStatus(CudaDeviceProperties* properties, int device);
using CudaSetDevice = CudaStatus(int device);
using CudaMalloc = CudaStatus(void** pointer, std::size_t bytes);
using CudaFree = CudaStatus(void* pointer);
using CudaMemcpyAsync = CudaStatus(void* to, const void* from, std::size_t bytes, CudaCopyKind kind,
                                   CudaStream stream);
using CudaStreamCreateWithFlags = CudaStatus(CudaStream* stream, unsigned int flags);
using CudaStreamDestroy = CudaStatus(CudaStream stream);
using CudaStreamWaitEvent = CudaStatus(CudaStream stream, CudaEvent event, unsigned int flags);
using CudaEventCreateWithFlags = CudaStatus(CudaEvent* event, unsigned int flags);
using CudaEventDestroy = CudaStatus(CudaEvent event);
using CudaEventRecord = CudaStatus(CudaEvent event, CudaStream stream);
using CudaEventQuery = CudaStatus(CudaEvent event);
using CudaGetErrorName = const char*(CudaStatus status);
using CudaGetErrorString = const char*(CudaStatus status);

// --- NCCL --------------------------------------------------------------------------------------

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
