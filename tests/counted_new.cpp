#include "tests/counted_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {

std::atomic<std::int64_t> allocations = 0;
std::atomic<std::int64_t> in_use = 0;
std::atomic<std::int64_t> peak = 0;

void* allocated(std::size_t bytes) noexcept {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) return nullptr;
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto size = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t now = in_use.fetch_add(size, std::memory_order_relaxed) + size;
  // Exact in a test of one thread; between threads a higher peak might be overwritten.
  if (now > peak.load(std::memory_order_relaxed)) peak.store(now, std::memory_order_relaxed);
  return memory;
}

void* counted(std::size_t bytes) {
  void* memory = allocated(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void returned(void* memory) noexcept {
  in_use.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)),
                   std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// All forms but the over-aligned ones: a sanitizer has its own of any that is left out, and reports
// memory that goes from one to the other.
void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocated(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocated(bytes); }
void operator delete(void* memory) noexcept { returned(memory); }
void operator delete[](void* memory) noexcept { returned(memory); }
void operator delete(void* memory, std::size_t) noexcept { returned(memory); }
void operator delete[](void* memory, std::size_t) noexcept { returned(memory); }

namespace shardsim::test {

std::int64_t num_allocations() { return allocations.load(); }

PeakMemory::PeakMemory() : before_(in_use.load()) { peak.store(before_); }

std::int64_t PeakMemory::bytes() const { return peak.load() - before_; }

}  // namespace shardsim::test
