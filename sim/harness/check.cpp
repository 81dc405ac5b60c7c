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
        "use it with the check that printed it");
  }
  const char* const variable = std::getenv(kReplayVariable);
  if (variable == nullptr || *variable == '\0') return std::nullopt;
  // Others' builds are not looked at: many programs may run with this variable set.
  if (parse_token(variable, /*force=*/true).name != name) return std::nullopt;
  return parse_token(variable, options.replay_force);
}

void replay(Checker& checker, const ReplayToken& token, CheckReport& report) {
  if (token.layout >= static_cast<int>(checker.options().layouts.size())) {
    throw UsageError("E1201", "the replay token is of a layout that this check does not have",
                     "run the check with the layouts it had when it printed the token");
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

// --- Shrinking ---------------------------------------------------------------------------------

// Schedules at each smaller number of ranks, for a failure that needs luck.
constexpr int kSchedules = 60;
// Failing schedules that are made smaller besides the first.
constexpr std::uint64_t kOthers = 8;

class Shrinker {
 public:
  Shrinker(Checker& checker, const CheckReport& report)
      : checker_(checker), token_(*report.token), failure_(*report.failure) {}

  Shrunk run() {
    take_fewer_ranks();
    take_fewer_steps();
    take_fewer_decisions();
    for (std::uint64_t seed = 2; seed < 2 + kOthers && unusual(token_) > 0; ++seed) {
      try_another(seed);
    }
    failure_.replay = to_text(token_);
    return {.token = token_, .failure = failure_, .runs = static_cast<int>(checker_.num_runs())};
  }

 private:
  using Decisions = std::vector<std::uint16_t>;

  bool keep(const ReplayToken& token, std::optional<Diagnosis> failure) {
    if (!failure || failure->code != failure_.code) return false;
    token_ = token;
    const std::string schedule = failure_.schedule;
    failure_ = *std::move(failure);
    if (failure_.schedule.empty()) failure_.schedule = schedule;
    return true;
  }

  static std::ptrdiff_t unusual(const ReplayToken& token) {
    const Decisions& all = token.schedule.decisions;
    return std::ranges::count_if(all, [](std::uint16_t one) { return one != 0; });
  }

  // Decisions are indices into candidates, so removing one changes the meaning of the others.
  // Another schedule that fails may come down to fewer.
  void try_another(std::uint64_t seed) {
    const ReplayToken best = token_;
    const Diagnosis failure = failure_;
    ReplayToken fresh = token_;
    fresh.schedule = {};
    Explorer explorer(checker_, fresh);
    std::optional<Explorer::Found> found =
        explorer.explore({.schedules = kSchedules, .seed = seed});
    if (!found || !keep(found->token, std::move(found->failure))) return;
    take_fewer_decisions();
    if (unusual(token_) < unusual(best)) return;
    token_ = best;
    failure_ = failure;
  }

  // Some schedule of a smaller run; the decisions of the larger one mean nothing there.
  bool fails_at(const CheckPoint& point) {
    ReplayToken smaller = token_;
    smaller.ranks = point.ranks;
    smaller.layout = point.layout;
    smaller.schedule = {};
    Explorer explorer(checker_, smaller);
    try {
      std::optional<Explorer::Found> found = explorer.explore({.schedules = kSchedules});
      return found && keep(found->token, std::move(found->failure));
    } catch (const CommunicationError&) {
      return false;  // The reference failed.
    }
  }

  void take_fewer_ranks() {
    std::vector<CheckPoint> points;
    if (token_.layout >= 0) {
      points = points_of(checker_.options());
      std::ranges::stable_sort(points, {}, &CheckPoint::ranks);
    } else {
      for (int ranks = 1; ranks < token_.ranks; ++ranks) points.push_back({.ranks = ranks});
    }
    const int most = token_.ranks;
    for (const CheckPoint& point : points) {
      if (point.ranks < most && fails_at(point)) return;
    }
  }

  void take_fewer_steps() {
    const int most = token_.steps;
    // A run of no steps would say nothing of a program that has them.
    for (int steps = 1; steps < most; ++steps) {
      ReplayToken shorter = token_;
      shorter.steps = steps;
      if (keep(shorter, checker_.verdict(shorter))) return;
    }
  }

  // Decisions beyond the list are the plain ones, so the list is cut. Then stretches are taken out,
  // and entries go to 0, many at once and then fewer. Source: Zeller and Hildebrandt, "Simplifying
  // and isolating failure-inducing input" (IEEE TSE 2002).
  void take_fewer_decisions() {
    const Decisions all = token_.schedule.decisions;
    for (std::size_t length = 0; length < all.size(); ++length) {
      if (keep({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length)})) break;
    }
    take_out_stretches();
    for (std::size_t stretch = token_.schedule.decisions.size(); stretch > 0; stretch /= 2) {
      for (std::size_t first = 0; first < token_.schedule.decisions.size(); first += stretch) {
        Decisions plainer = token_.schedule.decisions;
        const auto begin = plainer.begin() + static_cast<std::ptrdiff_t>(first);
        std::fill_n(begin, std::min(stretch, plainer.size() - first), std::uint16_t{0});
        if (plainer != token_.schedule.decisions) keep(std::move(plainer));
      }
    }
    take_out_stretches();
  }

  void take_out_stretches() {
    for (std::size_t stretch = token_.schedule.decisions.size(); stretch > 0; stretch /= 2) {
      std::size_t first = 0;
      while (first < token_.schedule.decisions.size()) {
        Decisions shorter = token_.schedule.decisions;
        const auto begin = shorter.begin() + static_cast<std::ptrdiff_t>(first);
        const std::size_t out = std::min(stretch, shorter.size() - first);
        shorter.erase(begin, begin + static_cast<std::ptrdiff_t>(out));
        if (!keep(std::move(shorter))) first += stretch;
      }
    }
  }

  bool keep(Decisions decisions) {
    ReplayToken token = token_;
    token.schedule.decisions = std::move(decisions);
    return keep(token, checker_.verdict(token));
  }

  Checker& checker_;
  ReplayToken token_;
  Diagnosis failure_;
};

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
  report.compared_with = report.failure ? report.failure->compared_with : checker.compared_with();
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
  if (!failure && !compared_with.empty()) text += "  compared with: " + compared_with + "\n";
  if (!drawn.empty()) text += "  drawn: " + drawn + "\n";
  // One line each: there is one root report.
  for (std::size_t i = 0; i < warnings.size() && i < kMostWarnings; ++i) {
    text += "warning: " + warnings[i].code + ": " + warnings[i].summary + "\n";
  }
  if (warnings.size() > kMostWarnings) {
    text += fmt::format("... and {} warnings more\n", warnings.size() - kMostWarnings);
  }
  if (!test.empty()) text += "the smallest check that fails alike, as a test:\n\n" + test;
  return text;
}

// --- Shrinking ---------------------------------------------------------------------------------

Shrunk shrink(const Program& program, const CheckOptions& options, const CheckReport& report) {
  if (!report.failure || !report.token) {
    throw UsageError("E1211", "there is no run of the program to shrink",
                     "shrink what check() has found on more than one rank; a reference that fails "
                     "is as small as it gets");
  }
  Checker checker(program, options);
  return Shrinker(checker, report).run();
}

}  // namespace shardsim
