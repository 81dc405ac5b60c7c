#pragma once

#include <cstddef>

// The part of the CUDA runtime's binary interface that shardsim uses. It is declared here so that
// the build needs nothing of CUDA. tests/backends/nccl_header_check.cpp compares it with the real
// header.
namespace shardsim {

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

}  // namespace shardsim
