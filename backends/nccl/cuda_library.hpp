#pragma once

#include <string>
#include <vector>

#include "backends/nccl/cuda_abi.hpp"
#include "backends/nccl/dynamic_library.hpp"

namespace shardsim {

/// The CUDA runtime's functions, looked up while the program runs.
struct CudaFunctions {
  CudaGetDeviceCount* get_device_count = nullptr;
  CudaDriverGetVersion* driver_get_version = nullptr;
  CudaRuntimeGetVersion* runtime_get_version = nullptr;
  CudaGetDeviceProperties* get_device_properties = nullptr;
  CudaSetDevice* set_device = nullptr;
  CudaMalloc* malloc_device = nullptr;
  CudaFree* free_device = nullptr;
  CudaMemcpyAsync* memcpy_async = nullptr;
  CudaStreamCreateWithFlags* stream_create = nullptr;
  CudaStreamDestroy* stream_destroy = nullptr;
  CudaStreamWaitEvent* stream_wait_event = nullptr;
  CudaEventCreateWithFlags* event_create = nullptr;
  CudaEventDestroy* event_destroy = nullptr;
  CudaEventRecord* event_record = nullptr;
  CudaEventQuery* event_query = nullptr;
  CudaGetErrorName* error_name = nullptr;
  CudaGetErrorString* error_string = nullptr;
};

/// Opens the CUDA runtime: `path` if given, else SHARDSIM_CUDART_LIB, else libcudart.so.13, .12 and
/// .11 where the loader finds them.
class CudaLibrary {
 public:
  explicit CudaLibrary(const std::string& path = {});

  /// Open, with all functions.
  [[nodiscard]] bool usable() const { return library_.is_open() && library_.missing().empty(); }
  [[nodiscard]] const DynamicLibrary& library() const { return library_; }
  [[nodiscard]] const CudaFunctions& functions() const { return functions_; }
  /// Throws Error (E1035) that names the call, unless `status` is success.
  void check(CudaStatus status, const char* call) const;

 private:
  DynamicLibrary library_;
  CudaFunctions functions_;
};

}  // namespace shardsim
