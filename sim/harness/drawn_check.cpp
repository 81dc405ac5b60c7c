#include "sim/harness/drawn_check.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// So many points are drawn for each that is accepted, at most.
constexpr int kMostDrawn = 10;
// So many simpler points are tried, at most. Each step down tries some, and there are few steps.
constexpr int kMostSimpler = 1000;

CheckOptions options_at(const DrawnPoint& point, const CheckOptions& options) {
  CheckOptions at = options;
  // A token is of one point. Checks at others must not answer to it.
  at.name += " (drawn)";
  at.layouts = {point.layout};
  at.extents = point.extents;
  at.seeds = {point.seed};
  at.precision = point.precision;
  return at;
}

class DrawnSearch {
 public:
  DrawnSearch(const Program& program, const CheckOptions& options, const DrawnCheckOptions& drawn)
      : program_(program), options_(options), drawn_(drawn) {}

  CheckReport run(const std::function<DrawnTree(int number)>& draw) {
    CheckReport last;
    std::int64_t schedules = 0;
    int accepted = 0;
    int most_ranks = 0;
    for (int number = 0; accepted < drawn_.cases; ++number) {
      if (number == kMostDrawn * drawn_.cases) refuse(number, accepted);
      const DrawnTree tree = draw(number);
      if (!is_accepted(tree.point)) continue;
      ++accepted;
      most_ranks = std::max(most_ranks, tree.point.layout.size());
      last = check(program_, options_at(tree.point, options_));
      schedules += last.schedules;
      if (!last.passed()) return smallest(tree, last, number);
    }
    last.schedules = schedules;
    last.summary = fmt::format("{}: right at {} drawn points ({}) of up to {} ranks, in {} runs",
                               options_.name, accepted, drawn_.source, most_ranks, schedules);
    return last;
  }

 private:
  [[nodiscard]] bool is_accepted(const DrawnPoint& point) const {
    return !drawn_.accepts || drawn_.accepts(point);
  }

  [[noreturn]] void refuse(int number, int accepted) const {
    throw UsageError("E1214",
                     fmt::format("of {} drawn points the check \"{}\" accepts {}", number,
                                 options_.name, accepted),
                     "draw layouts and extents that the program is made for, or accept more");
  }

  CheckReport smallest(DrawnTree tree, CheckReport report, int number) {
    const std::string code = report.failure->code;
    int tried = 0;
    int taken = 0;
    DrawnTree::Next next = tree.simpler();
    while (tried < kMostSimpler) {
      const std::optional<DrawnTree> simpler = next();
      if (!simpler) break;
      if (!is_accepted(simpler->point)) continue;
      ++tried;
      CheckReport other = check(program_, options_at(simpler->point, options_));
      if (other.passed() || other.failure->code != code) continue;
      ++taken;
      report = std::move(other);
      tree = *simpler;
      next = tree.simpler();
    }
    CheckOptions smallest = options_at(tree.point, options_);
    take_fewer_steps(smallest, report);
    report.drawn = fmt::format("point {} of {}; {} simpler ones were tried, {} {} taken", number,
                               drawn_.source, tried, taken, taken == 1 ? "was" : "were");
    smallest.name = options_.name;
    report.test = test_text(smallest, drawn_.program, *report.failure);
    report.failure->replay.clear();
    report.token.reset();
    return report;
  }

  // Fewer steps are another check, which draws other schedules: it is kept if it fails alike.
  void take_fewer_steps(CheckOptions& smallest, CheckReport& report) const {
    if (!report.token) return;  // The reference failed.
    const Shrunk shrunk = shrink(program_, smallest, report);
    CheckOptions shorter = smallest;
    shorter.steps = shrunk.token.steps;
    CheckReport other = check(program_, shorter);
    if (other.passed() || other.failure->code != report.failure->code) return;
    smallest = shorter;
    report = std::move(other);
  }

  const Program& program_;
  const CheckOptions& options_;
  const DrawnCheckOptions& drawn_;
};

}  // namespace

CheckReport check_drawn(const Program& program, const CheckOptions& options,
                        const DrawnCheckOptions& drawn,
                        const std::function<DrawnTree(int number)>& draw) {
  if (drawn.cases < 1 || !draw) {
    throw UsageError("E1213", fmt::format("{} drawn checks", drawn.cases),
                     "draw at least one, from something");
  }
  if (!options.replay.empty()) {
    throw UsageError(
        "E1213", "a drawn check cannot replay a token, which is of one point",
        "paste the test that the failure printed, and give it the token that it prints");
  }
  return DrawnSearch(program, options, drawn).run(draw);
}

}  // namespace shardsim
