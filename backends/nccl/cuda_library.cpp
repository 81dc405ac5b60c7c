#include "backends/nccl/cuda_library.hpp"

#include "sim/kernel/error.hpp"

namespace shardsim {

CudaLibrary::CudaLibrary(const std::string& path)
    : library_(library_names(path, "SHARDSIM_CUDART_LIB",
                             {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})) {
  if (!library_.is_open()) return;
  CudaFunctions& f = functions_;
  library_.require("cudaGetDeviceCount", f.get_device_count);
  library_.require("cudaDriverGetVersion", f.driver_get_version);
  library_.require("cudaRuntimeGetVersion", f.runtime_get_version);
  library_.require("cudaGetDeviceProperties", f.get_device_properties);
  library_.require("cudaSetDevice", f.set_device);
  library_.require("cudaMalloc", f.malloc_device);
  library_.require("cudaFree", f.free_device);
  library_.require("cudaMemcpyAsync", f.memcpy_async);
  library_.require("cudaStreamCreateWithFlags", f.stream_create);
  library_.require("cudaStreamDestroy", f.stream_destroy);
  library_.require("cudaStreamWaitEvent", f.stream_wait_event);
  library_.require("cudaEventCreateWithFlags", f.event_create);
  library_.require("cudaEventDestroy", f.event_destroy);
  library_.require("cudaEventRecord", f.event_record);
  library_.require("cudaEventQuery", f.event_query);
  library_.require("cudaGetErrorName", f.error_name);
  library_.require("cudaGetErrorString", f.error_string);
}

void CudaLibrary::check(CudaStatus status, const char* call) const {
  if (status == CudaStatus::success) return;
  throw Error(
      ExitCode::backend_failed, "E1035",
      std::string(call) + " failed: " + functions_.error_name(status) + ", " +
          functions_.error_string(status),
      "look at `nvidia-smi` for the state of the GPU, and at the kernel's log for errors of "
      "its driver");
}

}  // namespace shardsim
