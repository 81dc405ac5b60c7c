#include <algorithm>

#include "sim/kernel/error.hpp"

#include "sim/harness/checker.hpp"

namespace shardsim {

namespace {

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
    return std::count_if(all.begin(), all.end(), [](std::uint16_t one) { return one != 0; });
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
      std::stable_sort(points.begin(), points.end(),
                       [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
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
    for (int steps = 0; steps < most; ++steps) {
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

Shrunk shrink(const Program& program, const CheckOptions& options, const CheckReport& report) {
  if (!report.failure || !report.token) {
    throw UsageError(
        "E1211", "there is no run of the program to shrink",
        "shrink what check() has found on more than one rank; a reference that fails is "
        "as small as it gets");
  }
  Checker checker(program, options);
  return Shrinker(checker, report).run();
}

}  // namespace shardsim
