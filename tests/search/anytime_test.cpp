#include <algorithm>
#include <limits>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/pages.hpp"
#include "sim/search/search_report.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

namespace {

double objective_of(const SimulatedPoint& point, Objective objective) {
  return objective == Objective::memory ? static_cast<double>(point.device_bytes)
                                        : point.step_time_s;
}

// A search that is stopped when so many simulations have ended, and the hook is then asked for the
// `asked`-th time: the first is before the next simulation starts, later ones are within it.
Searched stopped(const SmallSpace& space, Objective objective, std::size_t after, int asked = 1) {
  const TemporaryFolder folder;
  Searched result;
  result.request = request_of(space, folder / "model.json");
  result.request.objective = objective;
  result.base = prepare_search(result.request);
  SearchHooks hooks;
  std::size_t done = 0;
  int times = 0;
  hooks.on_progress = [&](const SearchProgress& progress) { done = progress.simulated; };
  hooks.stop = [&] {
    if (done >= after) ++times;
    return times >= asked ? SearchStop::time_limit : SearchStop::none;
  };
  result.outcome = search(result.base, result.request, hooks);
  return result;
}

const SimulatedPoint* best_of(const Searched& found) {
  const SimulatedPoint* best = nullptr;
  for (const SimulatedPoint& point : found.outcome.simulated) {
    if (!point.fits) continue;
    if (best == nullptr || ranks_before(point, *best, found.request.objective)) best = &point;
  }
  return best;
}

// The first of the small spaces' searches that has one, stopped as early as it has.
Searched stopped_with_gap() {
  Searched found;
  for (const SmallSpace& space : small_spaces()) {
    for (std::size_t after = 1; after < 8; ++after) {
      found = stopped(space, Objective::time, after);
      if (found.outcome.gap > 0.0) return found;
    }
  }
  return found;
}

std::size_t sum_of(const SearchOutcome& outcome) {
  return outcome.simulated.size() + outcome.num_slower + outcome.num_too_large +
         outcome.num_refused + outcome.num_failed + outcome.num_open;
}

}  // namespace

TEST_CASE("the gap is how much of the best its bound could save, and never below 0") {
  CHECK(gap_of(3.0, 2.0) == 0.5);
  CHECK(gap_of(2.0, 2.0) == 0.0);
  CHECK(gap_of(2.0, 4.0) == 0.0);
  CHECK(gap_of(1.0, 0.0) == std::numeric_limits<double>::infinity());
}

// Whatever a stopped search left, nothing there ranks first with less than the bound that it names.
TEST_CASE("the bound of a stopped search holds for all that it did not simulate") {
  int stopped_early = 0;
  int with_gap = 0;
  for (const SmallSpace& space : small_spaces()) {
    const Searched& all = simulated_in_full(space);
    for (const Objective objective : {Objective::time, Objective::memory}) {
      for (const std::size_t after : {0, 3, 17}) {
        INFO(space.name << ", stopped after " << after);
        const Searched found = stopped(space, objective, after);
        CHECK(sum_of(found.outcome) == found.outcome.num_candidates);
        const SimulatedPoint* best = best_of(found);
        if (found.outcome.stop == SearchStop::none || !found.outcome.lower_bound) continue;
        ++stopped_early;
        const double bound = *found.outcome.lower_bound;
        const double limit =
            best == nullptr ? bound : std::min(bound, objective_of(*best, objective));
        for (const SimulatedPoint& point : all.outcome.simulated) {
          const bool was_seen =
              std::ranges::find(found.outcome.simulated, point.index, &SimulatedPoint::index) !=
              found.outcome.simulated.end();
          if (was_seen || !point.fits) continue;
          if (best != nullptr && !best->is_tight && point.is_tight) continue;
          INFO(words_of(point.candidate));
          CHECK(objective_of(point, objective) >= limit);
        }
        REQUIRE(found.outcome.gap.has_value() == (best != nullptr));
        if (best == nullptr) continue;
        const double ratio = objective_of(*best, objective) / bound - 1.0;
        CHECK(*found.outcome.gap == std::max(0.0, ratio));
        if (*found.outcome.gap > 0.0) ++with_gap;
      }
    }
  }
  CHECK(stopped_early > 10);
  CHECK(with_gap > 3);
}

// The hook is asked before each bound and simulation. Without a look ahead, all bounds below the
// best become close first.
TEST_CASE("the first layout that fits comes long before the bounds are close") {
  for (const SmallSpace& space : small_spaces()) {
    const TemporaryFolder folder;
    const SearchRequest request = request_of(space, folder / "model.json");
    const SearchBase base = prepare_search(request);
    std::size_t asked = 0;
    std::size_t asked_until_first = 0;
    SearchHooks hooks;
    hooks.stop = [&] {
      ++asked;
      return SearchStop::none;
    };
    hooks.on_progress = [&](const SearchProgress& progress) {
      if (progress.best && asked_until_first == 0) asked_until_first = asked;
    };
    (void)search(base, request, hooks);
    UNSCOPED_INFO(asked_until_first << " of " << asked);
    CHECK(asked_until_first > 0);
    CHECK(2 * asked_until_first < asked);
  }
}

TEST_CASE("the bound of a complete search is its best, and the gap 0") {
  const Searched found = searched(small_space("little memory"), /*prunes=*/true);
  REQUIRE(best_of(found) != nullptr);
  CHECK(found.outcome.stop == SearchStop::none);
  CHECK(found.outcome.num_open == 0);
  CHECK(found.outcome.lower_bound == best_of(found)->step_time_s);
  CHECK(found.outcome.gap == 0.0);
}

TEST_CASE("a simulation that a stop catches is abandoned, and its layout left open") {
  const SmallSpace space = small_space("dense, every schedule");
  const Searched before = stopped(space, Objective::time, 3, 1);
  const Searched within = stopped(space, Objective::time, 3, 2);
  CHECK(before.outcome.simulated.size() == 3);
  CHECK(within.outcome.simulated.size() == 3);
  CHECK(within.outcome.stop == SearchStop::time_limit);
  CHECK(within.outcome.num_failed == 0);
  CHECK(sum_of(within.outcome) == within.outcome.num_candidates);
}

TEST_CASE("a stopped search says so in its text, its page and its JSON") {
  const Searched found = stopped_with_gap();
  REQUIRE(found.outcome.gap > 0.0);
  const SearchReport report = report_of(found.base, found.request, found.outcome);
  const std::string text = to_text(report, {});
  CHECK(contains(text, "  stopped after 60 s: best "));
  CHECK(contains(text, "nothing left that could rank first is faster than "));
  CHECK(!contains(text, "The search is complete."));
  CHECK(contains(page_of(report).counts, " were left open. The search was stopped after 60 s: "));
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["complete"] == false);
  CHECK(json["interrupted"] == false);
  CHECK(json["gap"] == *report.gap);
  CHECK(json["lower_bound"]["step_time_s"] == *report.lower_bound);
  CHECK(json["counts"]["left_open"] == report.num_open);
  CHECK(json["counts"]["not_simulated"] == report.num_candidates - report.num_simulated);
}

TEST_CASE("a complete search says that it is complete") {
  const Searched found = searched(small_space("little memory"), /*prunes=*/true);
  const SearchReport report = report_of(found.base, found.request, found.outcome);
  CHECK(contains(to_text(report, {}), "The search is complete."));
  CHECK(nlohmann::json::parse(to_json(report))["complete"] == true);
}

TEST_CASE("a plan whose time is over before anything is found ends with 3") {
  const Printed printed = shardsim(
      {"plan", "llama3-70b", "--gpus", "1024", "--gpu", "h100", "-q", "--time-limit", "0.000001"});
  CHECK(printed.exit_code == 3);
  CHECK(contains(printed.out, "stopped after 1e-06 s: no layout that fits was found so far"));
}

}  // namespace shardsim::test
