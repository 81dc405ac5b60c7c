#pragma once

#include <chrono>

// The one place where the rendezvous looks at a clock. Real processes fail in real time; nothing of
// it reaches a result.
namespace shardsim {

/// Seconds since some fixed moment; never goes back.
[[nodiscard]] inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace shardsim
