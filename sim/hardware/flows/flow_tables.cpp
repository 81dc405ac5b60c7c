#include "sim/hardware/flows/flow_tables.hpp"

#include <algorithm>
#include <cmath>

#include "sim/kernel/error.hpp"

namespace shardsim {

FlowRate rate_of(double bytes_per_second) {
  constexpr double kHighest = 9e15;
  if (!(bytes_per_second >= 0 && bytes_per_second <= kHighest)) {
    throw LimitError("E0322", concat("a link of ", bytes_per_second, " bytes/s is out of range"),
                     "use 0 to 9e15 bytes/s");
  }
  // At most 2^63 - 2^53, and exact in a double above 2^53.
  return static_cast<FlowRate>(std::floor(bytes_per_second * kRateUnitsPerByte + 0.5));
}

Int128 work_of(std::int64_t bytes) {
  constexpr std::int64_t kPicosecondsPerSecond = 1'000'000'000'000;
  return Int128{bytes} * kRateUnitsPerByte * kPicosecondsPerSecond;
}

void FlowTables::count(LinkState& link) const {
  const std::int64_t passed = now.picoseconds() - link.counted_until;
  if (passed == 0) return;
  link.counted_until = now.picoseconds();
  const auto load = static_cast<FlowRate>((room_of(link.capacity) - link.spare) >> 16U);
  link.busy += Int128{passed} * load;
  link.peak = std::max(link.peak, load);
  if (link.num_held > 0) link.full_time += passed;
}

}  // namespace shardsim
