#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/search/search_report.hpp"

#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

namespace {

SearchReport report_of(const Searched& found) {
  return shardsim::report_of(found.base, found.request, found.outcome);
}

// Compares what is shown of a search and of the simulation of all layouts.
void compare_with_all(const Searched& pruned, const Searched& all) {
  const SearchReport found = report_of(pruned);
  const SearchReport expected = shardsim::report_of(all.base, pruned.request, all.outcome);
  REQUIRE(!expected.ranked.empty());
  CHECK(words_of_points(found.ranked) == words_of_points(expected.ranked));
  CHECK(words_of_points(found.front) == words_of_points(expected.front));
}

}  // namespace

TEST_CASE("a search finds what simulating every layout finds") {
  for (const SmallSpace& space : small_spaces()) {
    for (const Objective objective : {Objective::time, Objective::memory}) {
      INFO(space.name);
      const Searched pruned = searched(space, /*prunes=*/true, 2, objective);
      const Searched& all = simulated_in_full(space);
      compare_with_all(pruned, all);
      const SearchReport found = report_of(pruned);
      // All of it would be no search.
      CHECK(pruned.outcome.simulated.size() < all.outcome.simulated.size());
      CHECK(found.num_simulated + found.num_slower + found.num_too_large + found.num_refused ==
            found.num_candidates);
    }
  }
}

// Hosts of a framework take most of such small steps, and bounds count them little.
TEST_CASE("a search with a framework finds what simulating every layout finds") {
  for (const char* name : {"layers that pp does not divide", "experts that run again"}) {
    INFO(name);
    SmallSpace space = small_space(name);
    space.name += ", with a framework";
    space.overrides.front() = "system.software=megatron-core-2025";
    compare_with_all(searched(space, /*prunes=*/true), simulated_in_full(space));
  }
}

TEST_CASE("the best of a plan leaves the margin, although faster layouts fit without") {
  const SmallSpace space = small_space("little memory");
  const SearchReport report = report_of(searched(space, /*prunes=*/true));
  const Searched& all = simulated_in_full(space);
  REQUIRE(!report.ranked.empty());
  CHECK(!report.ranked.front().is_tight);
  CHECK(std::any_of(
      all.outcome.simulated.begin(), all.outcome.simulated.end(), [&](const SimulatedPoint& point) {
        return point.is_tight && point.step_time_s < report.ranked.front().step_time_s;
      }));
}

TEST_CASE("how many simulate at a time changes nothing") {
  const SmallSpace space = small_space("little memory");
  const SearchReport one = report_of(searched(space, /*prunes=*/true, 1));
  SearchReport four = report_of(searched(space, /*prunes=*/true, 4));
  four.model = one.model;  // A file in another temporary folder.
  CHECK(to_text(one, {}) == to_text(four, {}));
  CHECK(to_json(one) == to_json(four));
  CHECK(to_csv(one) == to_csv(four));
}

TEST_CASE("where nothing fits, the one that needs least is found") {
  SmallSpace space = small_space("little memory");
  space.overrides = {"system.software=none", "system.device.memory_gib=0.01"};
  const Searched& all =
      simulated_in_full(small_space("little memory"));  // As large on any machine.
  const SearchReport found = report_of(searched(space, /*prunes=*/true));
  std::int64_t least = all.outcome.simulated.front().device_bytes;
  for (const SimulatedPoint& point : all.outcome.simulated) {
    least = std::min(least, point.device_bytes);
  }
  CHECK(found.ranked.empty());
  CHECK(found.least_is_simulated);
  CHECK(found.least_bytes_not_fitting == least);
}

TEST_CASE("a layout whose run fails is counted apart from those that are not legal") {
  SmallSpace space = small_spaces().front();
  // Ranks that share samples are no replicas of each other: their run is legal, and refused.
  space.overrides = {"execution.fold=require"};
  space.fixed = {
      "tp=1", "pp=1", "cp=1,8", "zero_stage=0", "micro_batch_size=1", "recompute=none,full"};
  const Searched found = searched(space, /*prunes=*/false);
  CHECK(found.outcome.simulated.size() == 2);
  CHECK(found.outcome.num_failed == 2);
  CHECK(found.outcome.num_refused == 0);
  CHECK(found.outcome.failed == Candidate{.cp = 8, .micro_batch_size = 1, .num_microbatches = 16});
  CHECK(found.outcome.first_failure.rfind("E0310: ", 0) == 0);
  const SearchReport report = report_of(found);
  const std::string text = to_text(report, {});
  CHECK(text.find("; 2 failed. First") != std::string::npos);
  CHECK(text.find("E0310:") != std::string::npos);
  CHECK(to_json(report).find("\"reason\": \"E0310: ") != std::string::npos);
}

TEST_CASE("a search can be stopped before it simulates") {
  const SmallSpace space = small_spaces().front();
  const TemporaryFolder folder;
  const SearchRequest request = request_of(space, folder / "model.json");
  const SearchBase base = prepare_search(request);
  SearchHooks hooks;
  std::size_t asked = 0;
  hooks.stop = [&asked] { return ++asked == 1 ? SearchStop::interrupt : SearchStop::none; };
  const SearchOutcome outcome = search(base, request, hooks);
  CHECK(outcome.stop == SearchStop::interrupt);
  CHECK(asked == 1);
  CHECK(outcome.num_open == outcome.num_candidates);
  CHECK(!outcome.lower_bound);
  CHECK(!outcome.gap);
}

TEST_CASE("an interrupted search keeps what it has") {
  const SmallSpace space = small_spaces().front();
  const TemporaryFolder folder;
  const SearchRequest request = request_of(space, folder / "model.json");
  const SearchBase base = prepare_search(request);
  SearchHooks hooks;
  std::size_t done = 0;
  hooks.on_progress = [&done](const SearchProgress& progress) { done = progress.simulated; };
  hooks.stop = [&done] { return done >= 20 ? SearchStop::interrupt : SearchStop::none; };
  const SearchOutcome outcome = search(base, request, hooks);
  CHECK(outcome.stop == SearchStop::interrupt);
  CHECK(outcome.simulated.size() == 20);
  CHECK(outcome.num_open > 0);
  const SearchReport report = shardsim::report_of(base, request, outcome);
  CHECK(to_text(report, {}).find("  interrupted: best ") != std::string::npos);
}

}  // namespace shardsim::test
