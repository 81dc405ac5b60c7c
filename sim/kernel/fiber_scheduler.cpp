#include "sim/kernel/fiber_scheduler.hpp"

#include <string>
#include <utility>

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// So few stacks that the kept memory is small.
constexpr std::size_t kSmallRun = 64;

std::unique_ptr<StackSlab>& kept_slab() {
  thread_local std::unique_ptr<StackSlab> kept;
  return kept;
}

// AddressSanitizer takes old frames on a reused stack for errors.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepsSlabs = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kKeepsSlabs = false;
#else
constexpr bool kKeepsSlabs = true;
#endif
#else
constexpr bool kKeepsSlabs = true;
#endif

}  // namespace

// --- Order -------------------------------------------------------------------------------------

RankScheduler::RankScheduler(std::size_t ranks, std::uint64_t interleaving_seed)
    : exceptions_(*reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals())),
      shuffle_(interleaving_seed != 0) {
  fibers_.reserve(ranks);
  shuffle_state_.add(interleaving_seed);
}

bool RankScheduler::next_shuffle_bit() {
  shuffle_state_.add(std::uint64_t{0});
  return (shuffle_state_.value() & 1U) != 0;
}

// --- Stacks ------------------------------------------------------------------------------------

StackSlab::StackSlab(std::size_t count, std::size_t stack_bytes)
    : count_(count),
      stack_bytes_(stack_bytes),
      page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      stride_((stack_bytes + page_ - 1) / page_ * page_ + page_),
      total_(count * stride_) {
  void* base = mmap(nullptr, total_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED) {
    throw LimitError("E0304", "cannot reserve " + std::to_string(total_) + " bytes of stacks",
                     "use fewer ranks, or raise the limit on address space (ulimit -v)");
  }
  base_ = static_cast<char*>(base);
  // A huge page under a stack would make two megabytes of it resident at the first touch.
  madvise(base_, total_, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < count; ++i) {
    if (mprotect(base_ + i * stride_, page_, PROT_NONE) != 0) {
      munmap(base_, total_);
      throw LimitError("E0305", "cannot guard " + std::to_string(count) + " stacks",
                       "use fewer ranks, or raise vm.max_map_count");
    }
  }
}

SlabLease::SlabLease(std::size_t count, std::size_t stack_bytes)
    : is_small_(kKeepsSlabs && count <= kSmallRun) {
  std::unique_ptr<StackSlab>& kept = kept_slab();
  if (is_small_ && kept != nullptr && kept->is(count, stack_bytes)) slab_ = std::move(kept);
  if (slab_ == nullptr) slab_ = std::make_unique<StackSlab>(count, stack_bytes);
}

SlabLease::~SlabLease() {
  if (is_small_) kept_slab() = std::move(slab_);
}

StackSlab::~StackSlab() { munmap(base_, total_); }

boost::context::stack_context StackSlab::stack(std::size_t index) const {
  boost::context::stack_context context;
  context.size = stride_ - page_;
  context.sp = base_ + (index + 1) * stride_;  // Stacks grow downwards.
  return context;
}

}  // namespace shardsim
