#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/kernel/time.hpp"

// The common part of both trace formats: the mapping of ranks and streams to processes and threads,
// and of virtual time to nanoseconds.
namespace shardsim {

/// Whole nanoseconds, the resolution of trace viewers: to the nearest, halves up. Rounding never
/// swaps two times, so order and nesting remain. An operation shorter than half a nanosecond may be
/// shown as 0 long. REQUIRES: not negative.
[[nodiscard]] constexpr std::int64_t to_nanoseconds(Time time) {
  const std::int64_t picoseconds = time.picoseconds();
  return picoseconds / 1000 + (picoseconds % 1000 >= 500 ? 1 : 0);
}

/// Viewers keep process 0 for the idle task, so ranks count from 1 there.
[[nodiscard]] constexpr std::int32_t process_of(int rank) { return rank + 1; }

/// Unique in the whole trace. The first stream (compute) is the process's main thread, which
/// viewers list first. REQUIRES: fewer than a million ranks and 2,000 streams each.
[[nodiscard]] constexpr std::int32_t thread_of(int rank, std::size_t stream) {
  return process_of(rank) + static_cast<std::int32_t>(stream) * 1'000'000;
}

}  // namespace shardsim
