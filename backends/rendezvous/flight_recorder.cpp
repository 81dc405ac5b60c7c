#include "backends/rendezvous/flight_recorder.hpp"

#include <utility>

#include <fmt/format.h>

#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

const char* name_of(FlightState state) {
  static constexpr const char* kNames[] = {"posted", "started", "ended"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string FlightEntry::describe() const {
  std::string text = "#" + std::to_string(sequence) + " " + call + " of group " + group;
  if (!site.empty()) text += " at " + site;
  return text;
}

std::string to_text(const FlightRecord& record) {
  const auto moment = [](double seconds) {
    return seconds < 0 ? std::string("-") : fmt::format("{:.6f}", seconds);
  };
  std::string text = fmt::format("{:>12} {:>12} {:>12}  {:<8} call\n", "posted s", "started s",
                                 "ended s", "state");
  for (const FlightEntry& entry : record) {
    text += fmt::format("{:>12} {:>12} {:>12}  {:<8} {}\n", moment(entry.posted_s),
                        moment(entry.started_s), moment(entry.ended_s), name_of(entry.state),
                        entry.describe());
  }
  return text;
}

FlightRecorder::FlightRecorder(std::function<double()> clock)
    : clock_(std::move(clock)), begin_s_(clock_()) {}

FlightRecorder::FlightRecorder() : FlightRecorder(monotonic_seconds) {}

void FlightRecorder::posted(const CallWatch::Call& call) {
  FlightEntry entry;
  entry.group = call.group;
  entry.instance = call.instance;
  entry.sequence = call.sequence;
  entry.call = call.record.describe();
  const CallSite& site = call.record.site;
  if (*site.file != '\0') entry.site = std::string(site.file) + ":" + std::to_string(site.line);
  entry.posted_s = now();
  const std::lock_guard lock(mutex_);
  if (ring_.size() < kSize) {
    ring_.push_back(std::move(entry));
    return;
  }
  ring_[next_] = std::move(entry);
  next_ = (next_ + 1) % kSize;
}

// A call that has left the ring is not looked for further.
FlightEntry* FlightRecorder::find(const CallWatch::Call& call) {
  for (std::size_t back = 1; back <= ring_.size(); ++back) {
    FlightEntry& entry = ring_[(next_ + ring_.size() - back) % ring_.size()];
    if (entry.sequence == call.sequence && entry.instance == call.instance &&
        entry.group == call.group) {
      return &entry;
    }
  }
  return nullptr;
}

void FlightRecorder::come_to(const CallWatch::Call& call, FlightState state,
                             double FlightEntry::*moment_s) {
  const double moment = now();
  const std::lock_guard lock(mutex_);
  FlightEntry* const entry = find(call);
  if (entry == nullptr) return;
  entry->state = state;
  entry->*moment_s = moment;
  if (state == FlightState::ended) last_ended_ = entry->describe();
}

FlightRecord FlightRecorder::record() const {
  const std::lock_guard lock(mutex_);
  FlightRecord record;
  for (std::size_t i = 0; i < ring_.size(); ++i) {
    record.push_back(ring_[(next_ + i) % ring_.size()]);
  }
  return record;
}

std::string FlightRecorder::last_posted() const {
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) return {};
  return ring_[(next_ + ring_.size() - 1) % ring_.size()].describe();
}

std::string FlightRecorder::last_ended() const {
  const std::lock_guard lock(mutex_);
  return last_ended_;
}

}  // namespace shardsim
