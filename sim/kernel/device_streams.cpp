#include "sim/kernel/device_streams.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

// Work is noted from the beginning to the end, as if a communication were always under way: one
// that is posted later may have started before on another stream.
DeviceStreams::DeviceStreams(std::uint32_t num_streams, std::uint32_t num_events,
                             const StreamRules& rules, RankClock& clock)
    : slowdown_(rules.slowdown),
      host_waits_(rules.waits_for_kernels),
      streams_(num_streams),
      events_(num_events) {
  if (charges()) clock.begin_beside();
}

void DeviceStreams::use(std::uint32_t stream, RankClock& clock) {
  if (stream == in_use_) return;
  streams_[in_use_].clock = std::move(clock);
  clock = std::move(streams_[stream].clock);
  clock.take_over(streams_[in_use_].clock);
  in_use_ = stream;
}

void DeviceStreams::record(std::uint32_t event, const RankClock& clock) {
  events_[event] = {clock.now(), streams_[in_use_].communication};
}

void DeviceStreams::wait(std::uint32_t event, RankClock& clock) {
  const Event& awaited = events_[event];
  // One that had ended when this stream came here is not what it waits for.
  const bool is_ahead = awaited.communication && awaited.communication->end > clock.now();
  clock.advance_to(is_ahead ? awaited.communication->start : awaited.moment, awaited.moment);
  if (is_ahead) streams_[in_use_].communication = awaited.communication;
  if (host_waits_) clock.synchronize();
}

void DeviceStreams::waited(Time start, Time end, bool is_transfer, RankClock& clock) {
  streams_[in_use_].communication = Interval{start, end};
  if (is_transfer || !charges()) return;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    // The clock in use has charged itself.
    if (i != in_use_) streams_[i].clock.charge(start, end, slowdown_, /*is_last=*/false);
  }
  add({start, end});
  forget(clock);
}

void DeviceStreams::add(Interval added) {
  const auto first = std::ranges::lower_bound(collectives_, added.start, {}, &Interval::end);
  auto last = first;
  for (; last != collectives_.end() && last->start <= added.end; ++last) {
    added.start = min(added.start, last->start);
    added.end = max(added.end, last->end);
  }
  if (first == last) {
    collectives_.insert(first, added);
  } else {
    *first = added;
    collectives_.erase(first + 1, last);
  }
}

void DeviceStreams::forget(RankClock& clock) {
  Time earliest = clock.now();  // Work of any stream begins then or later.
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (i != in_use_) earliest = min(earliest, max(streams_[i].clock.now(), clock.issued()));
  }
  while (!collectives_.empty() && collectives_.front().end <= earliest) collectives_.pop_front();
  if (clock.num_beside() > 1) return;  // Those under way have started before.
  clock.forget_beside(earliest);
  for (Stream& stream : streams_) stream.clock.forget_beside(earliest);
}

void DeviceStreams::charge(RankClock& clock) {
  Stream& stream = streams_[in_use_];
  const Time now = clock.now();
  auto beside = std::ranges::upper_bound(collectives_, stream.charged, {}, &Interval::end);
  for (; beside != collectives_.end() && beside->start < now; ++beside) {
    clock.charge(beside->start, beside->end, slowdown_, /*is_last=*/false);
  }
  stream.charged = clock.now();
}

}  // namespace shardsim
