#pragma once

#include <fstream>
#include <functional>
#include <string>

#include <poll.h>

#include "backends/rendezvous/monotonic_clock.hpp"

// Waiting for other processes and threads: until something is so, and far longer than a loaded
// machine needs before it is called a failure.
namespace shardsim::test {

inline constexpr double kPatienceSeconds = 60.0;

/// Whether it becomes true in time.
inline bool eventually(const std::function<bool()>& condition) {
  const double until = monotonic_seconds() + kPatienceSeconds;
  while (!condition()) {
    if (monotonic_seconds() > until) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

/// Whether the process has ended: one that nobody has reaped yet is as gone as it can get.
inline bool is_gone(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t close = text.rfind(')');
  return close == std::string::npos || text[close + 2] == 'Z' || text[close + 2] == 'X';
}

}  // namespace shardsim::test
