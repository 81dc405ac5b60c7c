#include "sim/harness/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/harness/checker.hpp"

namespace shardsim {

namespace {

constexpr const char* kReplayVariable = "SHARDSIM_REPLAY";
// A report has room for so many warnings.
constexpr std::size_t kMostWarnings = 5;
constexpr std::int64_t kSendModes = 3;

// The token to run instead of all schedules, if there is one for this check.
std::optional<ReplayToken> asked_for(const CheckOptions& options) {
  ReplayToken named{.name = options.name};
  const std::string name = parse_token(to_text(named)).name;
  if (!options.replay.empty()) {
    ReplayToken token = parse_token(options.replay, options.replay_force);
    if (token.name == name) return token;
    throw UsageError(
        "E1201",
        "the replay token is of the check \"" + token.name + "\", this is \"" + name + "\"",
        "give it to the check that has printed it");
  }
  const char* const variable = std::getenv(kReplayVariable);
  if (variable == nullptr || *variable == '\0') return std::nullopt;
  // Others' builds are not looked at: many programs may run with this variable set.
  if (parse_token(variable, /*force=*/true).name != name) return std::nullopt;
  return parse_token(variable, options.replay_force);
}

void replay(Checker& checker, const ReplayToken& token, CheckReport& report) {
  if (token.layout >= static_cast<int>(checker.options().layouts.size())) {
    throw UsageError("E1201", "the replay token is of a layout that this check has not",
                     "give the check the layouts that it had when it printed the token");
  }
  report.failure = checker.verdict(token);
  if (!report.failure) {
    report.summary = fmt::format("{}: the replayed run of {} ranks ends well",
                                 checker.options().name, token.ranks);
    return;
  }
  report.token = token;
  report.failure->schedule = "replayed";
  report.failure->replay = to_text(token);
}

// The bound of ExploreMode::pct. Without open decisions there is one schedule, and it was run.
double bound_of(const Exploration& exploration, int ranks, std::int64_t choices,
                std::int64_t schedules) {
  if (choices == 0) return 1.0;
  if (exploration.mode != ExploreMode::pct) return 0.0;
  const double each = 1.0 / (ranks * std::pow(static_cast<double>(choices), exploration.depth - 1));
  // A bug may need one kind of sends; a third of the schedules has it.
  const std::int64_t of_one_kind = schedules / kSendModes;
  return 1.0 - std::pow(1.0 - each, static_cast<double>(of_one_kind));
}

void explore(Checker& checker, const CheckOptions& options, CheckReport& report) {
  report.exhausted = options.explore.mode == ExploreMode::dpor;
  int largest = 0;
  for (const auto& [ranks, layout] : points_of(options)) {
    for (const std::uint64_t seed : options.seeds) {
      Explorer explorer(checker, {.name = options.name,
                                  .ranks = ranks,
                                  .steps = options.steps,
                                  .seed = seed,
                                  .layout = layout});
      std::optional<Explorer::Found> found = explorer.explore(options.explore);
      report.exhausted = report.exhausted && explorer.exhausted();
      report.most_choices = std::max(report.most_choices, explorer.most_choices());
      if (found) {
        report.token = std::move(found->token);
        report.failure = std::move(found->failure);
        return;
      }
      if (ranks < largest) continue;
      largest = ranks;
      report.bound =
          bound_of(options.explore, ranks, explorer.most_choices(), explorer.num_drawn());
    }
  }
}

std::string list_of(const std::vector<CheckPoint>& points) {
  std::string text;
  for (const CheckPoint& point : points) {
    text += (text.empty() ? "" : ", ") + std::to_string(point.ranks);
  }
  return text;
}

}  // namespace

CheckReport check(const Program& program, const CheckOptions& options) {
  Checker checker(program, options);
  CheckReport report;
  try {
    if (const std::optional<ReplayToken> token = asked_for(options)) {
      replay(checker, *token, report);
    } else {
      explore(checker, options, report);
    }
  } catch (const CommunicationError& error) {
    report.failure = error.diagnosis();  // The reference failed.
  }
  report.warnings = checker.warnings();
  report.schedules = checker.num_runs();
  if (!report.failure && report.summary.empty()) {
    report.summary = fmt::format("{}: right on {} ranks, in {} runs", options.name,
                                 list_of(points_of(options)), report.schedules);
    if (report.exhausted) {
      report.summary += "; there are no other schedules with sends all of one kind";
    }
  }
  return report;
}

std::string CheckReport::to_text() const {
  std::string text = failure ? failure->to_text() : summary + "\n";
  // One line each: there is one root report.
  for (std::size_t i = 0; i < warnings.size() && i < kMostWarnings; ++i) {
    text += "warning: " + warnings[i].code + ": " + warnings[i].summary + "\n";
  }
  if (warnings.size() > kMostWarnings) {
    text += fmt::format("... and {} warnings more\n", warnings.size() - kMostWarnings);
  }
  return text;
}

}  // namespace shardsim
