#include "sim/kernel/rank_state.hpp"

#include <bit>
#include <string>

namespace shardsim {

void RankState::compute(const char* name, Time price) {
  const Time begin = clock_;
  clock_ += price;
  split_.compute += price;
  hash_.add(price.picoseconds());
  if (trace_ != nullptr) {
    trace_->tracks.front().slices.push_back({.name = name, .begin = begin, .end = clock_});
  }
}

void RankState::slow_down(Time start, Time end, double share) {
  const Time from = max(start, slowed_until_);
  const Time until = min(end, clock_);
  slowed_until_ = max(slowed_until_, until);
  if (until <= from) return;
  const Time lost = Time::from_seconds((until - from).seconds() * share);
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
