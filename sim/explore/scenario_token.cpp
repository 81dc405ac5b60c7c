#include "sim/explore/scenario_token.hpp"

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

#include "scenarios/load.hpp"

namespace shardsim {

namespace {

// Enough to tell the scenarios of one user apart, few enough to paste.
constexpr unsigned kHashBits = 32;

std::string name_in_token(Scenario decisive) {
  decisive.output = {};  // A failed run may be made again with a trace.
  return fmt::format("{}-{:08x}", decisive.name,
                     hash_text(write_resolved(decisive)) >> (64U - kHashBits));
}

std::string without_hash(const std::string& name) { return name.substr(0, name.rfind('-')); }

}  // namespace

ReplayToken token_of(const Experiment& experiment, const Schedule& schedule) {
  const Scenario& scenario = experiment.scenario();
  return {.name = name_in_token(scenario),
          .ranks = static_cast<int>(scenario.system.ranks),
          .steps = static_cast<int>(scenario.execution.steps),
          .seed = static_cast<std::uint64_t>(scenario.execution.seed),
          .schedule = schedule};
}

Schedule schedule_of(const std::string& text, const Experiment& experiment, bool force) {
  const ReplayToken token = parse_token(text, force);
  // In a token's form: names may be any text, a token is one word.
  const std::string mine = parse_token(to_text(token_of(experiment, {}))).name;
  if (token.name == mine) return token.schedule;
  if (without_hash(token.name) == without_hash(mine)) {
    throw UsageError("E1203",
                     "the replay token is of a scenario \"" + without_hash(mine) +
                         "\" that differs from this one in its values",
                     "give the file as it was then, with the same --set options");
  }
  throw UsageError("E1203",
                   "the replay token is of scenario \"" + without_hash(token.name) +
                       "\", this is \"" + without_hash(mine) + "\"",
                   "give the file and the --set options with which it was printed");
}

std::string describe(const Schedule& schedule) {
  std::string text = fmt::format("{} sends", name_of(schedule.sends));
  if (schedule.seed != 0) text += fmt::format(", order drawn from {}", schedule.seed);
  return text;
}

}  // namespace shardsim
