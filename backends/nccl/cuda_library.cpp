#include "backends/nccl/cuda_library.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include <dlfcn.h>
#include <link.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kSmallestPiece = 256;  // Alignment of cudaMalloc.

}  // namespace

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      errors_.clear();
      return;
    }
    const char* error = dlerror();
    errors_.push_back(error != nullptr ? error : name + ": the loader gives no reason");
  }
}

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return {};
  return map->l_name;
}

DynamicLibrary::Symbol DynamicLibrary::require(const char* name) {
  if (!is_open()) return {};
  const Symbol found{dlsym(handle_, name)};
  if (found.address == nullptr) missing_.emplace_back(name);
  return found;
}

std::vector<std::string> library_names(const std::string& explicit_path, const char* variable,
                                       std::vector<std::string> defaults) {
  if (!explicit_path.empty()) return {explicit_path};
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0') return {value};
  return defaults;
}

CudaLibrary::CudaLibrary(const std::string& path)
    : library_(library_names(path, "SHARDSIM_CUDART_LIB",
                             {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})) {}

void CudaLibrary::check(CudaStatus status, const char* call) const {
  if (status == CudaStatus::success) return;
  throw Error(
      ExitCode::backend_failed, "E1035",
      std::string(call) + " failed: " + functions_.error_name(status) + ", " +
          functions_.error_string(status),
      "look at `nvidia-smi` for the state of the GPU, and at the kernel's log for errors of "
      "its driver");
}

CudaDevice::CudaDevice(std::shared_ptr<const CudaLibrary> cuda, int index, std::int64_t slab_bytes)
    : cuda_(std::move(cuda)), functions_(cuda_->functions()), slab_bytes_(slab_bytes) {
  cuda_->check(functions_.set_device(index), "cudaSetDevice");
  copy_stream_ = make_stream();
  release(allocate(1));  // The first slab, while nothing runs.
}

CudaDevice::~CudaDevice() {
  if (abandoned_) return;
  for (CudaEvent event : events_) functions_.event_destroy(event);
  for (CudaStream stream : streams_) functions_.stream_destroy(stream);
  for (void* slab : slabs_) functions_.free_device(slab);
}

CudaStream CudaDevice::make_stream() {
  CudaStream stream = nullptr;
  cuda_->check(functions_.stream_create(&stream, kCudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  streams_.push_back(stream);
  return stream;
}

CudaEvent CudaDevice::record(CudaStream stream) {
  if (free_events_.empty()) {
    CudaEvent made = nullptr;
    cuda_->check(functions_.event_create(&made, kCudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
    events_.push_back(made);
    free_events_.push_back(made);
  }
  CudaEvent event = free_events_.back();
  free_events_.pop_back();
  cuda_->check(functions_.event_record(event, stream), "cudaEventRecord");
  return event;
}

void CudaDevice::wait(CudaStream stream, CudaEvent event) const {
  cuda_->check(functions_.stream_wait_event(stream, event, 0), "cudaStreamWaitEvent");
}

bool CudaDevice::done(CudaEvent event) const {
  const CudaStatus status = functions_.event_query(event);
  if (status == CudaStatus::not_ready) return false;
  cuda_->check(status, "cudaEventQuery");
  return true;
}

void CudaDevice::give_back(CudaEvent event) {
  if (event != nullptr) free_events_.push_back(event);
}

std::byte* CudaDevice::allocate(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  const auto size = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, kSmallestPiece))));
  std::vector<std::byte*>& pieces = free_[size];
  if (pieces.empty()) {
    if (rest_bytes_ < size) {
      void* slab = nullptr;
      const std::int64_t slab_bytes = std::max(size, slab_bytes_);
      cuda_->check(functions_.malloc_device(&slab, static_cast<std::size_t>(slab_bytes)),
                   "cudaMalloc");
      slabs_.push_back(slab);
      rest_ = static_cast<std::byte*>(slab);
      rest_bytes_ = slab_bytes;
    }
    pieces.push_back(rest_);
    rest_ += size;
    rest_bytes_ -= size;
  }
  std::byte* piece = pieces.back();
  pieces.pop_back();
  sizes_[piece] = size;
  return piece;
}

void CudaDevice::release(std::byte* memory) {
  if (memory == nullptr) return;
  const auto it = sizes_.find(memory);
  free_[it->second].push_back(memory);
  sizes_.erase(it);
}

void CudaDevice::copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) const {
  cuda_->check(functions_.memcpy_async(device, host, static_cast<std::size_t>(bytes),
                                       CudaCopyKind::host_to_device, copy_stream_),
               "cudaMemcpyAsync to the device");
}

void CudaDevice::copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) const {
  cuda_->check(functions_.memcpy_async(host, device, static_cast<std::size_t>(bytes),
                                       CudaCopyKind::device_to_host, copy_stream_),
               "cudaMemcpyAsync from the device");
}

}  // namespace shardsim
