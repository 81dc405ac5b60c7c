#include <algorithm>

#include <fmt/format.h>

#include "sim/harness/checker.hpp"

namespace shardsim {

namespace {

// Draws without open decisions: they change the order of ranks and of ends, which no rank sees.
constexpr int kFewSchedules = 4;

}  // namespace

std::optional<Explorer::Found> Explorer::explore(const Exploration& exploration) {
  if (exploration.mode == ExploreMode::dpor) {
    exhausted_ = true;
    for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
      if (std::optional<Found> found = search(sends, exploration)) return found;
    }
    return std::nullopt;
  }
  for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
    if (std::optional<Found> found = run_plain(sends)) return found;
  }
  return exploration.mode == ExploreMode::pct ? draw(exploration) : std::nullopt;
}

std::optional<Explorer::Found> Explorer::run_plain(SendMode sends) {
  ListChooser chooser;
  return run({.sends = sends}, chooser, 0);
}

std::optional<Explorer::Found> Explorer::draw(const Exploration& exploration) {
  for (std::int64_t i = 0; i < exploration.schedules; ++i) {
    if (most_choices_ == 0 && i == kFewSchedules) break;
    RollingHash seed;
    seed.add(exploration.seed);
    seed.add(i);
    // 0 means that nothing is drawn.
    const Schedule schedule{.sends = static_cast<SendMode>(i % 3), .seed = seed.value() | 1U};
    PriorityChooser chooser(token_.ranks, exploration.depth, most_choices_, schedule.seed);
    ++num_drawn_;
    if (std::optional<Found> found = run(schedule, chooser, i + 1)) return found;
  }
  return std::nullopt;
}

std::optional<Explorer::Found> Explorer::search(SendMode sends, const Exploration& exploration) {
  std::optional<Found> found;
  std::int64_t number = 0;
  ReducedSearch reduced;
  const bool all = reduced.search(
      [&](ListChooser& chooser) {
        found = run({.sends = sends}, chooser, ++number);
        return !found;
      },
      exploration.schedules);
  num_drawn_ += number;
  exhausted_ = exhausted_ && all;
  return found;
}

std::optional<Explorer::Found> Explorer::run(const Schedule& schedule, ListChooser& chooser,
                                             std::int64_t number) {
  ReplayToken token = token_;
  token.schedule = schedule;
  Checker::Outcome outcome = checker_.run(token, chooser);
  most_choices_ = std::max(most_choices_, static_cast<std::int64_t>(outcome.decisions.size()));
  if (!outcome.failure) return std::nullopt;
  token.schedule.decisions = chooser.taken();
  Diagnosis failure = checker_.classify(token, *std::move(outcome.failure));
  failure.schedule = fmt::format("{} ranks, {} sends", token.ranks, name_of(schedule.sends));
  if (number > 0) failure.schedule += fmt::format(", schedule {}", number);
  failure.replay = to_text(token);
  return Found{.token = std::move(token), .failure = std::move(failure)};
}

}  // namespace shardsim
