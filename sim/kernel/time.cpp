#include "sim/kernel/time.hpp"

namespace shardsim {

namespace {
constexpr double kPicosecondsPerSecond = 1e12;
// The largest double below 2^63; anything above does not fit.
constexpr double kLargestPicoseconds = 9223372036854774784.0;
}  // namespace

Time Time::from_seconds(double seconds) {
  const double picoseconds = seconds * kPicosecondsPerSecond + 0.5;
  if (!(picoseconds >= 0.0 && picoseconds <= kLargestPicoseconds)) throw_overflow();
  return Time(static_cast<std::int64_t>(picoseconds));
}

void Time::throw_overflow() {
  throw LimitError("E0301", "virtual time left its range of 0 to 106 days",
                   "use fewer steps, or check latencies and bandwidths for a wrong unit");
}

}  // namespace shardsim
