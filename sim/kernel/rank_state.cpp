#include "sim/kernel/rank_state.hpp"

#include <algorithm>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

Time RankState::compute(const char* name, Time price, Time host_time, const StreamRules& rules) {
  const Time begin = clock_.launch(host_time, price, rules);
  if (trace_ != nullptr) {
    trace_->tracks[trace_->computing].slices.push_back(
        {.name = name, .begin = begin, .end = clock_.now()});
  }
  return begin;
}

void RankState::use_stream(std::uint32_t stream) {
  settle_streams();
  streams_->use(stream, clock_);
  if (trace_ != nullptr) trace_->use_stream(stream);
}

void RankState::record_event(std::uint32_t event) {
  settle_streams();
  streams_->record(event, clock_);
}

void RankState::wait_event(std::uint32_t event) {
  settle_streams();
  streams_->wait(event, clock_);
}

void RankState::start_trace() {
  trace_ = std::make_unique<RankTrace>();
  trace_->rank = index_;
  trace_->name = "rank " + std::to_string(index_);
  trace_->tracks.push_back({.name = "compute", .computes = true});
  ledger_.set_listener(this);
}

void RankTrace::use_stream(std::uint32_t stream) {
  const std::string wanted =
      stream == 0 ? tracks.front().name : concat("compute on stream ", stream);
  const auto found = std::ranges::find(tracks, wanted, &TraceTrack::name);
  computing = static_cast<std::size_t>(found - tracks.begin());
  if (found == tracks.end()) tracks.push_back({.name = wanted, .computes = true});
}

void RankState::memory_changed(MemoryCategory category, std::int64_t bytes_now) {
  trace_->memory.push_back({.time = clock_.now(), .category = category, .bytes = bytes_now});
}

}  // namespace shardsim
