#include "sim/kernel/rank_state.hpp"

#include <bit>
#include <string>

namespace shardsim {

Time RankState::compute(const char* name, Time price, Time host_time, const StreamRules& rules) {
  const Time begin = clock_.launch(host_time, price, rules);
  if (trace_ != nullptr) {
    trace_->tracks.front().slices.push_back({.name = name, .begin = begin, .end = clock_.now()});
  }
  return begin;
}

namespace {

// One word for three times. Rotated, a change of one alone shows.
std::uint64_t word_of(Time start, Time end, Time clock) {
  const auto word = [](Time time) { return static_cast<std::uint64_t>(time.picoseconds()); };
  return word(end) ^ std::rotl(word(start), 21) ^ std::rotl(word(clock), 42);
}

}  // namespace

void RankState::wait(Time start, Time end, bool is_transfer, const StreamRules& rules) {
  hash_.wait(word_of(start, end, now()));
  clock_.wait(start, end, is_transfer, rules);
}

void RankState::wait_after(std::uint64_t stretch, Time start, Time end, bool is_transfer,
                           const StreamRules& rules) {
  hash_.wait_after(stretch, word_of(start, end, now()));
  clock_.wait(start, end, is_transfer, rules);
}

void RankState::start_trace() {
  trace_ = std::make_unique<RankTrace>();
  trace_->rank = index_;
  trace_->name = "rank " + std::to_string(index_);
  trace_->tracks.push_back({.name = "compute", .slices = {}});
  ledger_.set_listener(this);
}

void RankState::memory_changed(MemoryCategory category, std::int64_t bytes_now) {
  trace_->memory.push_back({.time = clock_.now(), .category = category, .bytes = bytes_now});
}

}  // namespace shardsim
