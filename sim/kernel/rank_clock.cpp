#include "sim/kernel/rank_clock.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsim {

void RankClock::note_beside(Time begin) {
  if (!computed_.empty() && computed_.back().end == begin) {
    computed_.back().end = clock_;
  } else {
    computed_.push_back({begin, clock_});
  }
}

// Takes the time from `start` to `end` out of the ordered, disjoint intervals, and returns how long
// that was. Mostly the last few are meant.
Time RankClock::take_between(Time start, Time end) {
  const auto first = std::ranges::partition_point(
      computed_, [start](const Interval& interval) { return interval.end <= start; });
  auto last = first;
  Time taken;
  std::array<Interval, 2> left;  // Before what is taken, and after.
  std::size_t num_left = 0;
  for (; last != computed_.end() && last->begin < end; ++last) {
    const Time from = max(start, last->begin);
    const Time until = min(end, last->end);
    if (last->begin < from) left.at(num_left++) = {last->begin, from};
    if (until < last->end) left.at(num_left++) = {until, last->end};
    if (from < until) taken += until - from;
  }
  const auto gap = computed_.erase(first, last);
  computed_.insert(gap, left.begin(), left.begin() + static_cast<std::ptrdiff_t>(num_left));
  return taken;
}

void RankClock::end_beside(Time start, Time end, double share) {
  // Mostly it is waited for at once, and has started after all that was computed.
  if (num_beside_ > 1 && (computed_.empty() || computed_.back().end <= start)) {
    --num_beside_;
    return;
  }
  const Time beside = take_between(start, end);
  if (--num_beside_ == 0) computed_.clear();  // Later ones start later.
  const Time lost = Time::from_seconds(beside.seconds() * share);
  clock_ += lost;
  split_.compute += lost;
}

}  // namespace shardsim
