#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include <ATen/Functions.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include "device.hpp"
#include "order.hpp"
#include "remote.hpp"

namespace shardsim_torch {

namespace {

constexpr std::size_t kAddressSpace = std::size_t{1} << 45U;
constexpr std::size_t kGranularity = 512;  // As PyTorch's allocator rounds.

struct Allocation {
  std::size_t bytes = 0;
  std::int64_t number = 0;
  bool has_memory = false;
  bool is_known = false;
};

void free_address(void* address);

// Addresses without memory are never given twice, so that a dangling one is found.
class DeviceMemory final : public at::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* address = nullptr;
    std::int64_t number = 0;
    {
      const std::lock_guard guard(mutex_);
      const bool has_memory = bytes > 0 && (with_data() || bytes <= kSmallBytes);
      address = has_memory ? std::calloc(1, bytes) : take(bytes);
      number = next_number_++;
      live_[address] = {bytes, number, has_memory};
      use_.now += bytes;
      use_.peak = std::max(use_.peak, use_.now);
    }
    if (bytes > 0) {
      Log::get().add({.kind = EntryKind::allocate,
                      .stream = current_stream(),
                      .number = number,
                      .amount = static_cast<std::int64_t>(bytes)});
    }
    return {address, address, &free_address, c10::Device(c10::kCUDA, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_address; }
  void copy_data(void*, const void*, std::size_t) const override {}

  void free(void* address) {
    if (with_data()) Order::get().forget(address);  // Before another allocation gets the address.
    Allocation gone;
    {
      const std::lock_guard guard(mutex_);
      const auto found = live_.find(address);
      if (found == live_.end()) return;
      gone = found->second;
      live_.erase(found);
      use_.now -= gone.bytes;
      if (gone.has_memory) std::free(address);
    }
    if (gone.bytes > 0) {
      Log::get().add(
          {.kind = EntryKind::release, .stream = current_stream(), .number = gone.number});
    }
  }

  // Null: there is none.
  template <class Visit>
  void visit(const void* address, Visit&& visit) {
    const std::lock_guard guard(mutex_);
    const auto found = live_.find(const_cast<void*>(address));
    visit(found == live_.end() ? nullptr : &found->second);
  }
  MemoryUse use() {
    const std::lock_guard guard(mutex_);
    return use_;
  }
  void reset_peak() {
    const std::lock_guard guard(mutex_);
    use_.peak = use_.now;
  }

 private:
  void* take(std::size_t bytes) {
    if (next_ == nullptr) {
      void* const space = mmap(nullptr, kAddressSpace, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      TORCH_CHECK(space != MAP_FAILED, "shardsim: no address space for the virtual device");
      next_ = static_cast<char*>(space);
      end_ = next_ + kAddressSpace;
    }
    const std::size_t rounded = (bytes / kGranularity + 1) * kGranularity;
    TORCH_CHECK(rounded <= static_cast<std::size_t>(end_ - next_),
                "shardsim: the virtual device has no addresses left");
    char* const address = next_;
    next_ += rounded;
    return address;
  }

  std::mutex mutex_;
  char* next_ = nullptr;
  char* end_ = nullptr;
  std::int64_t next_number_ = 0;
  MemoryUse use_;
  std::map<void*, Allocation> live_;
};

// It outlives all tensors, also those that go when the process ends.
DeviceMemory& memory() {
  static auto* const made = new DeviceMemory();
  return *made;
}

void free_address(void* address) { memory().free(address); }

const bool registered = [] {
  c10::SetAllocator(c10::kCUDA, &memory(), /*priority=*/255);
  return true;
}();

}  // namespace

c10::DataPtr allocate(std::size_t bytes) { return memory().allocate(bytes); }
at::Allocator* device_allocator() { return &memory(); }
MemoryUse memory_use() { return memory().use(); }
void reset_peak() { memory().reset_peak(); }

std::int64_t number_of_allocation(const void* address) {
  std::int64_t number = -1;
  memory().visit(address, [&](const Allocation* found) {
    if (found != nullptr) number = found->number;
  });
  return number;
}

bool is_small(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return true;
  const std::size_t bytes = tensor.storage().nbytes();
  return bytes > 0 && (with_data() || bytes <= kSmallBytes);
}

bool is_known(const at::Tensor& tensor) {
  if (tensor.is_cpu() || with_data()) return true;
  bool known = false;
  memory().visit(tensor.storage().data(), [&](const Allocation* found) {
    known = found != nullptr && found->has_memory && found->is_known;
  });
  return known || tensor.numel() == 0;
}

void set_known(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return;
  const bool is_all = static_cast<std::size_t>(tensor.nbytes()) >= tensor.storage().nbytes();
  memory().visit(tensor.storage().data(), [&](Allocation* found) {
    if (found != nullptr && found->has_memory && is_all) found->is_known = true;
  });
}

void set_unknown(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return;
  memory().visit(tensor.storage().data(), [](Allocation* found) {
    if (found != nullptr) found->is_known = false;
  });
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  auto* const begin = static_cast<char*>(tensor.storage().mutable_data());
  return at::from_blob(begin + tensor.storage_offset() * tensor.element_size(), tensor.sizes(),
                       tensor.strides(), tensor.options().device(c10::kCPU));
}

}  // namespace shardsim_torch
