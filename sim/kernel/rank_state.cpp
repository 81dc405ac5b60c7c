#include "sim/kernel/rank_state.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>

namespace shardsim {

namespace {

// Takes the time from `start` to `end` out of ordered, disjoint intervals, and returns how long
// that was. Mostly the last few are meant.
template <typename Interval>
Time take_between(std::vector<Interval>& computed, Time start, Time end) {
  const auto first = std::ranges::partition_point(
      computed, [start](const Interval& interval) { return interval.end <= start; });
  auto last = first;
  Time taken;
  std::array<Interval, 2> left;  // Before what is taken, and after.
  std::size_t num_left = 0;
  for (; last != computed.end() && last->begin < end; ++last) {
    const Time from = max(start, last->begin);
    const Time until = min(end, last->end);
    if (last->begin < from) left.at(num_left++) = {last->begin, from};
    if (until < last->end) left.at(num_left++) = {until, last->end};
    if (from < until) taken += until - from;
  }
  const auto gap = computed.erase(first, last);
  computed.insert(gap, left.begin(), left.begin() + static_cast<std::ptrdiff_t>(num_left));
  return taken;
}

}  // namespace

void RankState::compute(const char* name, Time price) {
  const Time begin = clock_;
  clock_ += price;
  split_.compute += price;
  hash_.add(price.picoseconds());
  if (num_beside_ > 0) {
    if (!computed_.empty() && computed_.back().end == begin) {
      computed_.back().end = clock_;
    } else {
      computed_.push_back({begin, clock_});
    }
  }
  if (trace_ != nullptr) {
    trace_->tracks.front().slices.push_back({.name = name, .begin = begin, .end = clock_});
  }
}

void RankState::end_beside(Time start, Time end, double share) {
  // Mostly it is waited for at once, and has started after all that was computed.
  if (num_beside_ > 1 && (computed_.empty() || computed_.back().end <= start)) {
    --num_beside_;
    return;
  }
  const Time beside = take_between(computed_, start, end);
  if (--num_beside_ == 0) computed_.clear();  // Later ones start later.
  const Time lost = Time::from_seconds(beside.seconds() * share);
  clock_ += lost;
  split_.compute += lost;
}

void RankState::advance_to(Time start, Time end) {
  // One word for both times. Rotated, a change of the start alone or of the end alone shows.
  hash_.add(static_cast<std::uint64_t>(end.picoseconds()) ^
            std::rotl(static_cast<std::uint64_t>(start.picoseconds()), 32));
  if (end <= clock_) return;
  if (start > clock_) {
    split_.bubble += start - clock_;
    clock_ = start;
  }
  split_.exposed_comm += end - clock_;
  clock_ = end;
}

void RankState::start_trace() {
  trace_ = std::make_unique<RankTrace>();
  trace_->rank = index_;
  trace_->name = "rank " + std::to_string(index_);
  trace_->tracks.push_back({.name = "compute", .slices = {}});
  ledger_.set_listener(this);
}

void RankState::memory_changed(MemoryCategory category, std::int64_t bytes_now) {
  trace_->memory.push_back({.time = clock_, .category = category, .bytes = bytes_now});
}

}  // namespace shardsim
