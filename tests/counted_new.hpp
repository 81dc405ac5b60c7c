#pragma once

#include <cstdint>

// The memory that a test binary takes from operator new. It is counted in binaries that compile
// counted_new.cpp, which replaces operator new for the whole binary. Sanitizers see the malloc
// below it as any other.
namespace shardsim::test {

/// Allocations so far.
[[nodiscard]] std::int64_t num_allocations();

/// The most that is in use at once from its making on, beyond what was in use then. One at a time.
class PeakMemory {
 public:
  PeakMemory();
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::int64_t before_;
};

}  // namespace shardsim::test
