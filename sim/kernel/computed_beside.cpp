#include "sim/kernel/computed_beside.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsim {

// Not where it would keep callers from being inlined.
void ComputedBeside::add(const Interval& interval) {
  if (last_.end != kNone.end) earlier_.push_back(last_);
  last_ = interval;
}

Time ComputedBeside::take_all(Time start, Time end) {
  Time sum = common(last_, start, end);
  for (std::size_t i = earlier_.size(); i > 0 && earlier_[i - 1].end > start; --i) {
    sum += common(earlier_[i - 1], start, end);
  }
  clear();
  return sum;
}

// Takes from the last interval, which ends after `start`.
Time ComputedBeside::take_from_last(Time start, Time end) {
  const Time from = max(start, last_.begin);
  const Time until = min(end, last_.end);
  if (until <= from) return {};
  const Interval before = {last_.begin, from};
  if (until < last_.end) {
    if (before.begin < before.end) earlier_.push_back(before);
    last_.begin = until;
  } else if (before.begin < before.end) {
    last_ = before;
  } else {
    drop_last();
  }
  return until - from;
}

void ComputedBeside::forget(Time before) {
  if (last_.end <= before) return clear();
  const auto kept = std::ranges::partition_point(
      earlier_, [before](const Interval& interval) { return interval.end <= before; });
  earlier_.erase(earlier_.begin(), kept);
}

void ComputedBeside::drop_last() {
  last_ = earlier_.empty() ? kNone : earlier_.back();
  if (!earlier_.empty()) earlier_.pop_back();
}

Time ComputedBeside::take_between(Time start, Time end) {
  if (earlier_.empty() || earlier_.back().end <= start) return take_from_last(start, end);
  earlier_.push_back(last_);
  const auto first = std::ranges::partition_point(
      earlier_, [start](const Interval& interval) { return interval.end <= start; });
  auto last = first;
  Time taken;
  std::array<Interval, 2> left;  // Before what is taken, and after.
  std::size_t num_left = 0;
  for (; last != earlier_.end() && last->begin < end; ++last) {
    const Time from = max(start, last->begin);
    const Time until = min(end, last->end);
    if (last->begin < from) left.at(num_left++) = {last->begin, from};
    if (until < last->end) left.at(num_left++) = {until, last->end};
    taken += common(*last, start, end);
  }
  const auto gap = earlier_.erase(first, last);
  earlier_.insert(gap, left.begin(), left.begin() + static_cast<std::ptrdiff_t>(num_left));
  drop_last();
  return taken;
}

}  // namespace shardsim
