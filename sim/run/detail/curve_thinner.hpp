#pragma once

#include <cstddef>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/time.hpp"

namespace shardsim {

/// The memory in use from `time` on.
struct TimedUse {
  Time time;
  MemoryUse bytes{};
};
[[nodiscard]] std::int64_t total_of(const MemoryUse& bytes);

/// Memory over time in bounded memory. For each instant it keeps the highest use and the last one.
/// If there are too many points, it keeps the higher one of each two neighbours.
class CurveThinner {
 public:
  /// REQUIRES: no earlier than the point before.
  void add(const TimedUse& point);
  /// All points, the last instant among them.
  [[nodiscard]] std::vector<TimedUse> finish();
  /// At most that many of them: the first, the last and the peak are always among them.
  [[nodiscard]] static std::vector<TimedUse> thinned(std::vector<TimedUse> points,
                                                     std::size_t most);
  [[nodiscard]] bool has_thinned() const { return has_thinned_; }

 private:
  static constexpr std::size_t kMostKept = 16'384;
  void close_instant();

  std::vector<TimedUse> points_;
  // The instant that has not ended yet.
  bool is_open_ = false;
  TimedUse most_;
  TimedUse left_;
  bool has_thinned_ = false;
};

}  // namespace shardsim
