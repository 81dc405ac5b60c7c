#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/harness/checker.hpp"

// Failures that other schedules do not have: the receive whose message decides, and both orders.
namespace shardsim {

namespace {

// So many other schedules are tried to tell a race from a hang,
constexpr int kRaceTries = 500;
// or from a wrong value, which is mostly wrong in all of them,
constexpr int kValueTries = 50;
// and fewer for large programs: a report is to come within seconds.
constexpr int kRaceRanks = 4096;

// Whether a run stopped because ranks wait.
bool is_stall(const Diagnosis& diagnosis) {
  return diagnosis.code == "DEADLOCK" || diagnosis.code == "P2P_UNMATCHED" ||
         diagnosis.code == "COLL_MISSING" || diagnosis.code == "P2P_TAG";
}

// Whether an assertion or a shown value is wrong.
bool is_of_values(const Diagnosis& diagnosis) {
  static constexpr std::string_view kValues[] = {
      "CHECK_FAILED", "RANK_FAILED", "GRAD_SCALE",   "GRAD_DIFF", "REPLICA_DIVERGED",
      "PARAM_STALE",  "STATE_DIFF",  "SHARD_COVER",  "NORM_DIFF", "RNG_STREAM",
      "TOKEN_LOST",   "OUT_DIFF",    "SHOW_MISMATCH"};
  return std::ranges::find(kValues, diagnosis.code) != std::end(kValues);
}

std::string describe(const MessageChoice& choice) {
  return fmt::format("rank {} receives message {} of rank {}", choice.receiver,
                     choice.message.number, choice.message.source);
}

DiagnosisSide side_of(const MessageChoice& choice, const std::string& end) {
  return {.ranks = {choice.receiver},
          .action = fmt::format("takes message {} of rank {}: {}", choice.message.number,
                                choice.message.source, end),
          .site = choice.site};
}

// `bad` and `good`: what one receive takes in the run that fails and in one that does not.
Diagnosis explain_race(const Diagnosis& failure, const MessageChoice& bad,
                       const MessageChoice& good) {
  const bool stall = is_stall(failure);
  Diagnosis race = failure;
  race.code = stall ? "MSG_RACE" : "SCHEDULE_DEPENDS";
  race.summary = fmt::format("{}: where {}, the run ends well; where {}, it ends with {}: {}",
                             stall ? "two messages race" : "the run depends on its schedule",
                             describe(good), describe(bad), failure.code, failure.summary);
  race.sides = {side_of(bad, failure.code), side_of(good, "ends well")};
  // The place of the assertion, or of what was shown.
  if (!stall && !failure.sides.empty()) race.sides.push_back(failure.sides.front());
  race.hint =
      "name the sender or give the messages different tags, or make the program right for either "
      "order";
  return race;
}

// The first `number` decisions, and one more if it is given.
std::vector<std::uint16_t> first_of(const std::vector<Decision>& decisions, std::size_t number) {
  std::vector<std::uint16_t> taken;
  for (std::size_t i = 0; i < number; ++i) taken.push_back(decisions[i].taken);
  return taken;
}

}  // namespace

std::optional<Diagnosis> Checker::find_race(const ReplayToken& token, const Diagnosis& failure) {
  const bool values = is_of_values(failure);
  if (!values && !is_stall(failure)) return std::nullopt;
  const std::vector<Decision> decisions = replay(token).decisions;
  if (decisions.empty()) return std::nullopt;
  if (values) {
    if (std::optional<Diagnosis> race = find_critical(token, failure, decisions)) return race;
  }
  ReplayToken other = token;
  int tries = 0;
  const int most =
      std::max(1, std::min(values ? kValueTries : kRaceTries, kRaceRanks / token.ranks));
  // Finds the last decision whose change lets the run end well.
  for (std::size_t i = decisions.size(); i > 0; --i) {
    const Decision& decision = decisions[i - 1];
    other.schedule.decisions = first_of(decisions, i - 1);
    other.schedule.decisions.push_back(0);
    for (std::size_t choice = 0; choice < decision.choices.size(); ++choice) {
      if (choice == decision.taken) continue;
      if (++tries > most) return std::nullopt;
      other.schedule.decisions.back() = static_cast<std::uint16_t>(choice);
      if (replay(other).failure) continue;
      return explain_race(failure, decision.choices[decision.taken], decision.choices[choice]);
    }
  }
  return std::nullopt;
}

// If the run that takes the first messages in virtual time ends well, finds a decision of this run
// up to which it could still end well, and no longer behind it.
std::optional<Diagnosis> Checker::find_critical(const ReplayToken& token, const Diagnosis& failure,
                                                const std::vector<Decision>& decisions) {
  ReplayToken other = token;
  const auto run_with = [&](std::size_t number) {
    other.schedule.decisions = first_of(decisions, number);
    return replay(other);
  };
  if (run_with(0).failure) return std::nullopt;
  std::size_t good = 0;
  std::size_t bad = decisions.size();
  while (bad - good > 1) {
    const std::size_t middle = good + (bad - good) / 2;
    const std::optional<Diagnosis> ended = run_with(middle).failure;
    if (ended && ended->code != failure.code) return std::nullopt;  // Another bug.
    (ended ? bad : good) = middle;
  }
  const Decision& wrong = decisions[good];
  const std::vector<Decision> others = run_with(good).decisions;
  if (good >= others.size()) return std::nullopt;
  const Decision& right = others[good];
  return explain_race(failure, wrong.choices[wrong.taken], right.choices[right.taken]);
}

}  // namespace shardsim
