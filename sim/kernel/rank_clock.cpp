#include "sim/kernel/rank_clock.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsim {

void ClockStretch::launch(Time host_time, Time price) {
  works_.push_back({host_time, price});
  if (host_time > Time()) {
    // The host is late where its clock passes the stream's.
    if (stream_to_host_ + host_time > stream_to_stream_) is_late_ = true;
    if (host_to_host_ + host_time > host_to_stream_) {
      margin_ = min(margin_, stream_to_stream_ - host_to_host_ - host_time);
    }
  }
  stream_to_host_ += host_time;
  host_to_host_ += host_time;
  stream_to_stream_ = max(stream_to_stream_, stream_to_host_) + price;
  host_to_stream_ = max(host_to_stream_, host_to_host_) + price;
  busy_ += price;
  if (!rules_.waits_for_kernels) return;
  stream_to_host_ = stream_to_stream_;
  host_to_host_ = host_to_stream_;
}

void ClockStretch::synchronize() {
  works_.push_back({.host_time = Time(), .price = Time(), .synchronizes = true});
  stream_to_host_ = stream_to_stream_;
  host_to_host_ = host_to_stream_;
}

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

// How long that was computed for; mostly at the end.
Time RankClock::between(Time start, Time end) const {
  Time sum;
  for (std::size_t i = computed_.size(); i > 0 && computed_[i - 1].end > start; --i) {
    const Time from = max(start, computed_[i - 1].begin);
    const Time until = min(end, computed_[i - 1].end);
    if (from < until) sum += until - from;
  }
  return sum;
}

void RankClock::charge_beside(Time start, Time end, double share) {
  // Mostly it is waited for at once, and has started after all that was computed.
  if (num_beside_ > 1 && computed_.back().end <= start) {
    --num_beside_;
    return;
  }
  Time beside;
  if (--num_beside_ == 0) {
    beside = between(start, end);
    computed_.clear();  // Later ones start later.
  } else {
    beside = take_between(start, end);
  }
  const Time lost = Time::from_seconds(beside.seconds() * share);
  clock_ += lost;
  split_.compute += lost;
}

}  // namespace shardsim
