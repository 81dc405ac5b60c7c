#pragma once

#include <vector>

#include "sim/kernel/time.hpp"

namespace shardsim {

/// When a compute stream was busy beside communications that are under way: ordered, disjoint
/// intervals. Each moment is charged to one communication.
class ComputedBeside {
 public:
  /// REQUIRES: not before any end so far.
  void note(Time begin, Time end) {
    if (begin == last_.end) {
      last_.end = end;
    } else {
      add({begin, end});
    }
  }
  /// How long the stream was busy from `start` to `end`, which is not charged again. `is_last`:
  /// nothing else is under way, and later communications start later.
  [[nodiscard]] Time take(Time start, Time end, bool is_last) {
    // Mostly it is waited for at once, and has started after all that was computed.
    if (last_.end > start) return is_last ? take_all(start, end) : take_between(start, end);
    if (is_last && last_.end != kNone.end) clear();
    return {};
  }
  /// Drops what ended by then.
  void forget(Time before);

 private:
  struct Interval {
    Time begin;
    Time end;
  };
  // No work ends then.
  static constexpr Interval kNone = {Time(), Time::from_picoseconds(-1)};

  void clear() {
    earlier_.clear();
    last_ = kNone;
  }
  [[nodiscard]] static Time common(const Interval& interval, Time start, Time end) {
    const Time from = max(start, interval.begin);
    const Time until = min(end, interval.end);
    return from < until ? until - from : Time();
  }
  void add(const Interval& interval);
  void drop_last();
  [[nodiscard]] Time take_from_last(Time start, Time end);
  [[nodiscard]] Time take_all(Time start, Time end);
  [[nodiscard]] Time take_between(Time start, Time end);

  Interval last_ = kNone;  // Mostly there is no other.
  std::vector<Interval> earlier_;
};

}  // namespace shardsim
