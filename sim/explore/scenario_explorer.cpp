#include "sim/explore/scenario_explorer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

#include "reports/result.hpp"
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

// --- Allowed differences between schedules -----------------------------------------------------

// Families of metrics that do not depend on the times of messages.
constexpr std::array<std::string_view, 5> kTimeless = {"comm.", "memory.", "moe.", "loss_scaling.",
                                                       "oracle."};

bool is_timeless(const std::string& name) {
  return std::any_of(kTimeless.begin(), kTimeless.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

std::string text_of(const MetricValue* value) {
  if (value == nullptr) return "absent";
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, *value);
}

Diagnosis differing(const std::string& what, const std::string& first, const Schedule& one,
                    const std::string& second, const Schedule& other) {
  Diagnosis diagnosis;
  diagnosis.code = "SCHEDULE_DEPENDS";
  diagnosis.summary = fmt::format("{} depends on the schedule: {} with {}, {} with {}", what, first,
                                  describe(one), second, describe(other));
  diagnosis.sides = {
      {.ranks = {}, .action = fmt::format("{}: {} is {}", describe(one), what, first), .site = {}},
      {.ranks = {},
       .action = fmt::format("{}: {} is {}", describe(other), what, second),
       .site = {}}};
  diagnosis.hint =
      "look for state shared by ranks, and for decisions by time, address or order of arrival";
  return diagnosis;
}

// Nothing, or the first metric that differs and must not. With equal modes of sends every metric
// and the exit code are equal, bit by bit, whatever the order of ranks. Otherwise only metrics
// that no clock affects must be equal: bytes, calls, memory, routing, and the oracle's.
std::optional<Diagnosis> compare_schedules(const Schedule& first, const Result& first_result,
                                           const Schedule& second, const Result& second_result) {
  const bool all = first.sends == second.sends && first.sends != SendMode::drawn;
  for (const Metric& metric : first_result.metrics) {
    if (!all && !is_timeless(metric.name)) continue;
    const MetricValue* const other = second_result.find(metric.name);
    if (other != nullptr && *other == metric.value) continue;
    return differing(metric.name, text_of(&metric.value), first, text_of(other), second);
  }
  if (first_result.metrics.size() != second_result.metrics.size()) {
    return differing("the number of metrics", fmt::format("{}", first_result.metrics.size()), first,
                     fmt::format("{}", second_result.metrics.size()), second);
  }
  if (!all || first_result.exit_code == second_result.exit_code) return std::nullopt;
  return differing("the exit code", fmt::format("{}", first_result.exit_code), first,
                   fmt::format("{}", second_result.exit_code), second);
}

// --- Schedules and checks ----------------------------------------------------------------------

constexpr const char* kCheck = "schedules";

std::vector<Schedule> schedules_of(const ExploreArguments& arguments) {
  std::vector<Schedule> schedules = {{.sends = SendMode::rendezvous},
                                     {.sends = SendMode::buffered}};
  if (arguments.mode != "pct") return schedules;
  for (int i = 0; i < arguments.schedules; ++i) {
    RollingHash seed;
    seed.add(arguments.seed);
    seed.add(std::int64_t{i});
    // 0 means that nothing is drawn.
    schedules.push_back({.sends = static_cast<SendMode>(i % 3), .seed = seed.value() | 1U});
  }
  return schedules;
}

// The proven property, in terms of the possible differences between schedules.
std::string proven(const ExploreArguments& arguments, std::size_t count) {
  if (arguments.mode != "pct") {
    return fmt::format(
        "explored {} schedules, with rendezvous and with buffered sends: no receive is open, so "
        "ranks can see no others",
        count);
  }
  return fmt::format(
      "explored {} schedules: rendezvous, buffered and drawn sends, {} with drawn orders of ranks; "
      "equal sends gave equal results, bit by bit",
      count, arguments.schedules);
}

Scenario without_buffered_sends(Scenario scenario) {
  scenario.execution.buffered_sends = false;
  return scenario;
}

const Check* failed_check(const Result& result) {
  const auto found =
      std::find_if(result.checks.begin(), result.checks.end(),
                   [](const Check& check) { return !check.passed && check.name != kCheck; });
  return found == result.checks.end() ? nullptr : &*found;
}

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

std::string failure_code(const Result& result) {
  if (result.diagnosis) return result.diagnosis->code;
  const Check* const check = failed_check(result);
  return check == nullptr ? std::string() : check->name;
}

ScenarioExplorer::ScenarioExplorer(const Experiment& given, RunHooks hooks)
    : given_(given),
      experiment_(compile(without_buffered_sends(given.scenario()))),
      hooks_(std::move(hooks)) {
  hooks_.watch = true;
}

// --- Running -----------------------------------------------------------------------------------

RunOutcome ScenarioExplorer::run(const Schedule& schedule) {
  ++num_runs_;
  hooks_.schedule = schedule;
  RunOutcome outcome = run_experiment(experiment_, hooks_);
  note_warnings(outcome.result);
  if (schedule.seed == 0) plain_.try_emplace(schedule.sends, outcome.result);
  return outcome;
}

const Result& ScenarioExplorer::plain(SendMode sends) {
  const auto found = plain_.find(sends);
  if (found != plain_.end()) return found->second;
  static_cast<void>(run({.sends = sends}));
  return plain_.at(sends);
}

void ScenarioExplorer::note_warnings(const Result& result) {
  for (const std::string& warning : result.warnings) {
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) {
      warnings_.push_back(warning);
    }
  }
}

std::string ScenarioExplorer::token(const Schedule& schedule) const {
  return to_text(token_of(given_, schedule));
}

// --- Judging -----------------------------------------------------------------------------------

RunOutcome ScenarioExplorer::verdict(const Schedule& schedule) {
  last_schedule_ = schedule;
  RunOutcome outcome = run(schedule);
  judge(schedule, outcome);
  return outcome;
}

void ScenarioExplorer::judge(const Schedule& schedule, RunOutcome& outcome) {
  Result& result = outcome.result;
  if (!result.diagnosis) compare_with_plain(schedule, outcome);
  // A run that was stopped has no figures, nor has one that is not reliable.
  if (result.diagnosis) result.metrics.clear();
  if (result.diagnosis) {
    Diagnosis& found = *result.diagnosis;
    if (found.code == "DEADLOCK" && schedule.sends != SendMode::buffered &&
        failure_code(plain(SendMode::buffered)).empty()) {
      found.code = "BUFFER_HAZARD";
      found.summary += "; with buffered sends it does not hang";
    }
    found.schedule = describe(schedule);
    found.replay = token(schedule);
  } else if (const Check* const failed = failed_check(result)) {
    result.checks.push_back({kCheck, false,
                             fmt::format("{} fails with {}; replay: {}", failed->name,
                                         describe(schedule), token(schedule))});
  }
  settle_exit_code(result);
}

void ScenarioExplorer::compare_with_plain(const Schedule& schedule, RunOutcome& outcome) {
  // The nearest run comes first: most metrics are compared with it.
  for (const SendMode sends : {schedule.sends, SendMode::rendezvous}) {
    const bool is_itself = schedule.seed == 0 && sends == schedule.sends;
    if (is_itself || sends == SendMode::drawn) continue;
    const Result& before = plain(sends);
    if (before.diagnosis) continue;  // The other run is reported itself.
    outcome.result.diagnosis =
        compare_schedules({.sends = sends}, before, schedule, outcome.result);
    if (outcome.result.diagnosis) return;
  }
}

// --- Many --------------------------------------------------------------------------------------

RunOutcome ScenarioExplorer::explore(const ExploreArguments& arguments) {
  const SendMode own = given_.world().buffered_sends ? SendMode::buffered : SendMode::rendezvous;
  const std::vector<Schedule> schedules = schedules_of(arguments);
  RunOutcome usual;
  for (const Schedule& schedule : schedules) {
    RunOutcome outcome = verdict(schedule);
    if (!failure_code(outcome.result).empty()) return outcome;
    if (schedule == Schedule{.sends = own}) usual = std::move(outcome);
  }
  usual.result.warnings = warnings_;
  usual.result.checks.push_back({kCheck, true, proven(arguments, schedules.size())});
  return usual;
}

RunOutcome ScenarioExplorer::replay(const Schedule& schedule) {
  RunOutcome outcome = verdict(schedule);
  if (failure_code(outcome.result).empty()) {
    outcome.result.checks.push_back(
        {kCheck, true, fmt::format("replayed {}: nothing is wrong", describe(schedule))});
  }
  return outcome;
}

}  // namespace shardsim
