// Holds our declarations against the real headers, while compiling: whatever differs does not
// compile. Run as a test only to say that it did.
#include <cstddef>
#include <type_traits>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "backends/nccl/nccl_abi.hpp"

namespace {

using namespace shardsim;  // NOLINT(*-build-using-namespace): tests only.

// --- What of theirs is what of ours
template <class Theirs>
struct Ours {
  using Type = Theirs;
};
template <class Theirs>
using OursOf = typename Ours<Theirs>::Type;

template <class Theirs>
struct Ours<Theirs*> {
  using Type = OursOf<Theirs>*;
};
template <class Theirs>
struct Ours<const Theirs> {
  using Type = std::add_const_t<OursOf<Theirs>>;
};
template <class Result, class... Parameters>
struct Ours<Result(Parameters...)> {
  using Type = OursOf<Result>(OursOf<Parameters>...);
};

#define SHARDSIM_IS_OURS(theirs, ours) \
  template <>                          \
  struct Ours<theirs> {                \
    using Type = ours;                 \
  }
SHARDSIM_IS_OURS(cudaError_t, CudaStatus);
SHARDSIM_IS_OURS(cudaMemcpyKind, CudaCopyKind);
SHARDSIM_IS_OURS(std::remove_pointer_t<cudaStream_t>, CudaStreamObject);
SHARDSIM_IS_OURS(std::remove_pointer_t<cudaEvent_t>, CudaEventObject);
SHARDSIM_IS_OURS(cudaDeviceProp, CudaDeviceProperties);
SHARDSIM_IS_OURS(ncclResult_t, NcclStatus);
SHARDSIM_IS_OURS(ncclDataType_t, NcclDataType);
SHARDSIM_IS_OURS(ncclRedOp_t, NcclReduceOp);
SHARDSIM_IS_OURS(std::remove_pointer_t<ncclComm_t>, NcclCommObject);
SHARDSIM_IS_OURS(ncclUniqueId, NcclUniqueId);
SHARDSIM_IS_OURS(ncclConfig_t, NcclConfig);
#undef SHARDSIM_IS_OURS

#define SHARDSIM_FUNCTION(theirs, ours) \
  static_assert(std::is_same_v<OursOf<decltype(theirs)>, ours>, #theirs)
SHARDSIM_FUNCTION(cudaGetDeviceCount, CudaGetDeviceCount);
SHARDSIM_FUNCTION(cudaDriverGetVersion, CudaDriverGetVersion);
SHARDSIM_FUNCTION(cudaRuntimeGetVersion, CudaRuntimeGetVersion);
SHARDSIM_FUNCTION(cudaGetDeviceProperties, CudaGetDeviceProperties);
SHARDSIM_FUNCTION(cudaSetDevice, CudaSetDevice);
SHARDSIM_FUNCTION(cudaFree, CudaFree);
SHARDSIM_FUNCTION(cudaMemcpyAsync, CudaMemcpyAsync);
SHARDSIM_FUNCTION(cudaStreamCreateWithFlags, CudaStreamCreateWithFlags);
SHARDSIM_FUNCTION(cudaStreamDestroy, CudaStreamDestroy);
SHARDSIM_FUNCTION(cudaStreamWaitEvent, CudaStreamWaitEvent);
SHARDSIM_FUNCTION(cudaEventDestroy, CudaEventDestroy);
SHARDSIM_FUNCTION(cudaEventRecord, CudaEventRecord);
SHARDSIM_FUNCTION(cudaEventQuery, CudaEventQuery);
SHARDSIM_FUNCTION(cudaGetErrorName, CudaGetErrorName);
SHARDSIM_FUNCTION(cudaGetErrorString, CudaGetErrorString);
// The header has templates or overloads of these names as well.
static_assert(static_cast<cudaError_t (*)(void**, std::size_t)>(cudaMalloc) != nullptr);
static_assert(std::is_same_v<OursOf<cudaError_t(void**, std::size_t)>, CudaMalloc>);
static_assert(static_cast<cudaError_t (*)(cudaEvent_t*, unsigned int)>(cudaEventCreateWithFlags) !=
              nullptr);
static_assert(
    std::is_same_v<OursOf<cudaError_t(cudaEvent_t*, unsigned int)>, CudaEventCreateWithFlags>);

SHARDSIM_FUNCTION(ncclGetVersion, NcclGetVersion);
SHARDSIM_FUNCTION(ncclGetUniqueId, NcclGetUniqueId);
SHARDSIM_FUNCTION(ncclCommInitRankConfig, NcclCommInitRankConfig);
SHARDSIM_FUNCTION(ncclCommSplit, NcclCommSplit);
SHARDSIM_FUNCTION(ncclCommFinalize, NcclCommFinalize);
SHARDSIM_FUNCTION(ncclCommDestroy, NcclCommDestroy);
SHARDSIM_FUNCTION(ncclCommAbort, NcclCommAbort);
SHARDSIM_FUNCTION(ncclCommGetAsyncError, NcclCommGetAsyncError);
SHARDSIM_FUNCTION(ncclCommCount, NcclCommQuery);
SHARDSIM_FUNCTION(ncclCommUserRank, NcclCommQuery);
SHARDSIM_FUNCTION(ncclGetErrorString, NcclGetErrorString);
SHARDSIM_FUNCTION(ncclGetLastError, NcclGetLastError);
SHARDSIM_FUNCTION(ncclGroupStart, NcclGroup);
SHARDSIM_FUNCTION(ncclGroupEnd, NcclGroup);
SHARDSIM_FUNCTION(ncclAllReduce, NcclAllReduce);
SHARDSIM_FUNCTION(ncclReduceScatter, NcclReduceScatter);
SHARDSIM_FUNCTION(ncclAllGather, NcclAllGather);
SHARDSIM_FUNCTION(ncclBroadcast, NcclBroadcast);
SHARDSIM_FUNCTION(ncclReduce, NcclReduce);
SHARDSIM_FUNCTION(ncclSend, NcclSend);
SHARDSIM_FUNCTION(ncclRecv, NcclReceive);
#undef SHARDSIM_FUNCTION

// --- Values
#define SHARDSIM_VALUE(theirs, ours)                                                    \
  static_assert(static_cast<unsigned int>(theirs) == static_cast<unsigned int>(ours) && \
                    sizeof(theirs) == sizeof(ours),                                     \
                #theirs)
SHARDSIM_VALUE(cudaSuccess, CudaStatus::success);
SHARDSIM_VALUE(cudaErrorStubLibrary, CudaStatus::stub_library);
SHARDSIM_VALUE(cudaErrorInsufficientDriver, CudaStatus::insufficient_driver);
SHARDSIM_VALUE(cudaErrorNoDevice, CudaStatus::no_device);
SHARDSIM_VALUE(cudaErrorNotReady, CudaStatus::not_ready);
SHARDSIM_VALUE(cudaMemcpyHostToDevice, CudaCopyKind::host_to_device);
SHARDSIM_VALUE(cudaMemcpyDeviceToHost, CudaCopyKind::device_to_host);
SHARDSIM_VALUE(cudaStreamNonBlocking, kCudaStreamNonBlocking);
SHARDSIM_VALUE(cudaEventDisableTiming, kCudaEventDisableTiming);
SHARDSIM_VALUE(ncclSuccess, NcclStatus::success);
SHARDSIM_VALUE(ncclUnhandledCudaError, NcclStatus::unhandled_cuda_error);
SHARDSIM_VALUE(ncclSystemError, NcclStatus::system_error);
SHARDSIM_VALUE(ncclInternalError, NcclStatus::internal_error);
SHARDSIM_VALUE(ncclInvalidArgument, NcclStatus::invalid_argument);
SHARDSIM_VALUE(ncclInvalidUsage, NcclStatus::invalid_usage);
SHARDSIM_VALUE(ncclRemoteError, NcclStatus::remote_error);
SHARDSIM_VALUE(ncclInProgress, NcclStatus::in_progress);
SHARDSIM_VALUE(ncclInt8, NcclDataType::int8);
SHARDSIM_VALUE(ncclUint8, NcclDataType::uint8);
SHARDSIM_VALUE(ncclInt32, NcclDataType::int32);
SHARDSIM_VALUE(ncclInt64, NcclDataType::int64);
SHARDSIM_VALUE(ncclFloat16, NcclDataType::float16);
SHARDSIM_VALUE(ncclFloat32, NcclDataType::float32);
SHARDSIM_VALUE(ncclFloat64, NcclDataType::float64);
SHARDSIM_VALUE(ncclBfloat16, NcclDataType::bfloat16);
SHARDSIM_VALUE(ncclSum, NcclReduceOp::sum);
SHARDSIM_VALUE(ncclProd, NcclReduceOp::product);
SHARDSIM_VALUE(ncclMax, NcclReduceOp::max);
SHARDSIM_VALUE(ncclMin, NcclReduceOp::min);
#undef SHARDSIM_VALUE

// --- Layouts
static_assert(sizeof(ncclUniqueId) == sizeof(NcclUniqueId));
// In a register or in memory, and copied how: as theirs.
static_assert(alignof(ncclUniqueId) == alignof(NcclUniqueId));
static_assert(std::is_trivially_copyable_v<NcclUniqueId>);
static_assert(sizeof(cudaDeviceProp) <= sizeof(CudaDeviceProperties));
static_assert(alignof(cudaDeviceProp) <= alignof(CudaDeviceProperties));
static_assert(offsetof(cudaDeviceProp, name) == offsetof(CudaDeviceProperties, name));
static_assert(sizeof(cudaDeviceProp::name) == sizeof(CudaDeviceProperties::name));

#define SHARDSIM_MEMBER(theirs, ours)                                                           \
  static_assert(offsetof(ncclConfig_t, theirs) == offsetof(NcclConfig, ours) &&                 \
                    std::is_same_v<decltype(ncclConfig_t::theirs), decltype(NcclConfig::ours)>, \
                #theirs)
SHARDSIM_MEMBER(size, size);
SHARDSIM_MEMBER(magic, magic);
SHARDSIM_MEMBER(version, version);
SHARDSIM_MEMBER(blocking, blocking);
SHARDSIM_MEMBER(cgaClusterSize, cga_cluster_size);
SHARDSIM_MEMBER(minCTAs, min_ctas);
SHARDSIM_MEMBER(maxCTAs, max_ctas);
SHARDSIM_MEMBER(netName, net_name);
SHARDSIM_MEMBER(splitShare, split_share);
#if NCCL_VERSION_CODE >= 22700
SHARDSIM_MEMBER(trafficClass, traffic_class);
#endif
#undef SHARDSIM_MEMBER
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));

// Ours is initialised with the same values as theirs.
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
constexpr NcclConfig kOurs{};
static_assert(kOurs.magic == kTheirs.magic && kOurs.blocking == kTheirs.blocking &&
              kOurs.cga_cluster_size == kTheirs.cgaClusterSize &&
              kOurs.min_ctas == kTheirs.minCTAs && kOurs.max_ctas == kTheirs.maxCTAs &&
              kOurs.net_name == kTheirs.netName && kOurs.split_share == kTheirs.splitShare);
static_assert(kOurs.size == sizeof(NcclConfig) && kOurs.version <= kTheirs.version);

}  // namespace
