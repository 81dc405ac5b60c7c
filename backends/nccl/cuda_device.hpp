#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backends/nccl/cuda_library.hpp"

namespace shardsim {

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
