#include "sim/kernel/alarms.hpp"

#include <algorithm>

namespace shardsim {

namespace {

// The order in which alarms sound.
bool sounds_before(const Alarm& a, const Alarm& b) {
  const std::optional<Time> first = a.time();
  const std::optional<Time> second = b.time();
  if (first != second) return first && (!second || *first < *second);
  return a.rank->index() < b.rank->index();
}

}  // namespace

std::optional<Time> Alarm::time() const {
  std::optional<Time> first = at_most;
  for (const Operation* const operation : operations) {
    if (!operation->resolved()) continue;
    first = first ? std::min(*first, operation->end()) : operation->end();
  }
  if (first) first = std::max(*first, rank->now());
  return first;
}

bool Alarm::has_end() const {
  return std::ranges::any_of(operations, [](const Operation* each) { return each->resolved(); });
}

std::optional<Time> Alarms::next_end() const {
  std::optional<Time> first;
  for (const Alarm& alarm : alarms_) {
    if (!alarm.has_end()) continue;
    const std::optional<Time> time = alarm.time();
    first = first ? std::min(*first, *time) : *time;
  }
  return first;
}

std::optional<Time> Alarms::next() const {
  if (alarms_.empty()) return std::nullopt;
  return std::ranges::min_element(alarms_, sounds_before)->time();
}

Alarm Alarms::take_next() {
  const auto first = std::ranges::min_element(alarms_, sounds_before);
  const Alarm alarm = *first;
  alarms_.erase(first);
  return alarm;
}

}  // namespace shardsim
