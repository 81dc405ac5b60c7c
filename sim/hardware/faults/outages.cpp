#include "sim/hardware/faults/outages.hpp"

#include <limits>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// The most outages during one operation, if several links take turns.
constexpr int kMostOutages = 1'000'000;

// Time since the last outage began, at or before `moment`. REQUIRES: moment >= link.phase.
Time since_outage(const FlappingLink& link, Time moment) {
  return Time::from_picoseconds((moment - link.phase).picoseconds() % link.period.picoseconds());
}

bool is_down(const FlappingLink& link, Time moment) {
  return moment >= link.phase && since_outage(link, moment) < link.down;
}

// REQUIRES: !is_down(link, moment).
Time next_outage(const FlappingLink& link, Time moment) {
  if (moment < link.phase) return link.phase;
  return moment + (link.period - since_outage(link, moment));
}

// The first moment from `moment` on at which all links are up.
Time when_up(std::span<const FlappingLink> links, Time moment, int& outages) {
  for (bool waited = true; waited && outages < kMostOutages;) {
    waited = false;
    for (const FlappingLink& link : links) {
      if (!is_down(link, moment)) continue;
      moment += link.down - since_outage(link, moment);
      ++outages;
      waited = true;
    }
  }
  return moment;
}

// Skips whole periods of the only link at once; it is up at `moment`.
Time skip_periods(const FlappingLink& link, Time& moment, Time left) {
  const Time up = link.period - link.down;
  const Time until = next_outage(link, moment) - moment;
  if (left <= until) return left;
  moment += until + link.down;  // An outage has just ended.
  left -= until;
  // The last part may end where an outage begins, but not after it.
  const std::int64_t periods = (left.picoseconds() - 1) / up.picoseconds();
  std::int64_t skipped = 0;
  if (__builtin_mul_overflow(periods, link.period.picoseconds(), &skipped)) {
    skipped = std::numeric_limits<std::int64_t>::max();  // Adding it is an error of its own.
  }
  moment += Time::from_picoseconds(skipped);
  return left - Time::from_picoseconds(periods * up.picoseconds());
}

}  // namespace

Time end_with_outages(std::span<const FlappingLink> links, Time start, Time duration) {
  if (links.empty() || duration == Time()) return start + duration;
  int outages = 0;
  Time left = duration;
  Time moment = when_up(links, start, outages);
  if (links.size() == 1) {
    left = skip_periods(links.front(), moment, left);
    return moment + left;
  }
  while (outages < kMostOutages) {
    Time next = next_outage(links.front(), moment);
    for (const FlappingLink& link : links.subspan(1)) next = min(next, next_outage(link, moment));
    if (left <= next - moment) return moment + left;
    left -= next - moment;
    moment = when_up(links, next, outages);
  }
  throw LimitError("E1396",
                   "an operation over flapping links does not end: one of " +
                       std::to_string(links.size()) + " links is down at almost any time",
                   "use shorter outages, or fewer flapping links (faults.flapping_links)");
}

}  // namespace shardsim
