#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/nccl_abi.hpp"

namespace shardsim {

/// A shared library opened while the program runs. It is never closed: its threads may run, and its
/// functions may be called, until the process ends.
class DynamicLibrary {
 public:
  /// Opens the first of `names` that can be, each a path or a name for the loader. `errors()` says
  /// why not, one line per name, if none can.
  explicit DynamicLibrary(const std::vector<std::string>& names);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }
  /// The file that was opened, in full.
  [[nodiscard]] std::string path() const;

  /// A function of any type, null if it is not there; who asks for it knows the type.
  struct Symbol {
    void* address = nullptr;
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  /// Looks for the symbol, and notes it as missing in an open library that has none.
  [[nodiscard]] Symbol require(const char* name);
  /// Those required and not found.
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  void* handle_ = nullptr;
  std::vector<std::string> errors_;
  std::vector<std::string> missing_;
};

/// The names to try: `explicit_path` alone if it is given, else the path in the environment's
/// `variable` alone if that is set, else `defaults`.
[[nodiscard]] std::vector<std::string> library_names(const std::string& explicit_path,
                                                     const char* variable,
                                                     std::vector<std::string> defaults);

/// The CUDA runtime's functions, looked up while the program runs.
struct CudaFunctions {
  DynamicLibrary& library;
  CudaGetDeviceCount* get_device_count = library.require("cudaGetDeviceCount");
  CudaDriverGetVersion* driver_get_version = library.require("cudaDriverGetVersion");
  CudaRuntimeGetVersion* runtime_get_version = library.require("cudaRuntimeGetVersion");
  CudaGetDeviceProperties* get_device_properties = library.require("cudaGetDeviceProperties");
  CudaSetDevice* set_device = library.require("cudaSetDevice");
  CudaMalloc* malloc_device = library.require("cudaMalloc");
  CudaFree* free_device = library.require("cudaFree");
  CudaMemcpyAsync* memcpy_async = library.require("cudaMemcpyAsync");
  CudaStreamCreateWithFlags* stream_create = library.require("cudaStreamCreateWithFlags");
  CudaStreamDestroy* stream_destroy = library.require("cudaStreamDestroy");
  CudaStreamWaitEvent* stream_wait_event = library.require("cudaStreamWaitEvent");
  CudaEventCreateWithFlags* event_create = library.require("cudaEventCreateWithFlags");
  CudaEventDestroy* event_destroy = library.require("cudaEventDestroy");
  CudaEventRecord* event_record = library.require("cudaEventRecord");
  CudaEventQuery* event_query = library.require("cudaEventQuery");
  CudaGetErrorName* error_name = library.require("cudaGetErrorName");
  CudaGetErrorString* error_string = library.require("cudaGetErrorString");
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
  CudaFunctions functions_{library_};
};

/// One process's device: its streams, events and memory, all kept until the end and used again.
/// Every call throws Error (E1035) when the CUDA runtime refuses it.
class CudaDevice {
 public:
  /// Memory is taken from the device in pieces of at least `slab_bytes`, since taking it may wait
  /// for kernels that wait for other ranks.
  CudaDevice(std::shared_ptr<const CudaLibrary> cuda, int index,
             std::int64_t slab_bytes = std::int64_t{64} << 20);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  [[nodiscard]] CudaStream make_stream();
  /// A stream of its own for copies: they never wait behind a collective.
  [[nodiscard]] CudaStream copy_stream() const { return copy_stream_; }

  [[nodiscard]] CudaEvent record(CudaStream stream);
  void wait(CudaStream stream, CudaEvent event) const;
  [[nodiscard]] bool done(CudaEvent event) const;
  /// `event` may be null. REQUIRES: it is done.
  void give_back(CudaEvent event);

  /// At least `bytes`; null for none.
  [[nodiscard]] std::byte* allocate(std::int64_t bytes);
  void release(std::byte* memory);

  /// On the copy stream.
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) const;
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) const;

  /// After a failure: leaves everything to the end of the process, since freeing could wait for a
  /// kernel that never ends.
  void abandon() { abandoned_ = true; }

 private:
  std::shared_ptr<const CudaLibrary> cuda_;
  const CudaFunctions& functions_;
  std::int64_t slab_bytes_;
  CudaStream copy_stream_ = nullptr;
  std::vector<CudaStream> streams_;
  std::vector<CudaEvent> events_;       // All.
  std::vector<CudaEvent> free_events_;  // Those not in use.
  std::vector<void*> slabs_;
  std::byte* rest_ = nullptr;  // Unused end of the last slab.
  std::int64_t rest_bytes_ = 0;
  std::map<std::int64_t, std::vector<std::byte*>> free_;  // Pieces by size, a power of two.
  std::map<std::byte*, std::int64_t> sizes_;              // Sizes of pieces in use.
  bool abandoned_ = false;
};

}  // namespace shardsim
