#include <algorithm>
#include <optional>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/scenario_error.hpp"
#include "sim/search/search_report.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

// Layouts that a user names, ranked among those of a search.
namespace shardsim::test {

namespace {

// The space without bounds, and a search of it with a given layout.
struct GivenSpace {
  SmallSpace space;
  TemporaryFolder folder;
  SearchRequest request;
  SearchBase base;

  explicit GivenSpace(const SmallSpace& small) : space(small) {
    request = request_of(space, folder / "model.json");
    base = prepare_search(request);
  }
  SearchOutcome search_with(const Candidate& candidate) {
    base.given = GivenLayout{candidate, {}};
    SearchHooks hooks;
    hooks.jobs = 2;
    return search(base, request, hooks);
  }
};

GivenLayout given_of(const SmallSpace& space, const std::string& words) {
  const TemporaryFolder folder;
  SearchRequest request = request_of(space, folder / "model.json");
  request.against = words;
  return *prepare_search(request).given;
}

std::vector<std::string> plan_with(const std::string& against,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> words = {"plan",
                                    "gpt2",
                                    "--gpus",
                                    "8",
                                    "--gpu",
                                    "h100",
                                    "-q",
                                    "--fix",
                                    "cp=1",
                                    "--fix",
                                    "recompute=none",
                                    "--fix",
                                    "pp=1,2",
                                    "--fix",
                                    "micro_batch_size=1,2",
                                    "--fix",
                                    "schedule=none,1f1b",
                                    "--global-batch-size",
                                    "16",
                                    "--time-limit",
                                    "0",
                                    "--against",
                                    against};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("a given layout has the rank that simulating every layout gives it") {
  for (const char* name :
       {"little memory", "layers that pp does not divide", "experts in slices"}) {
    GivenSpace given(small_space(name));
    const Searched& all = simulated_in_full(given.space);
    std::vector<SimulatedPoint> ranked;
    std::ranges::copy_if(all.outcome.simulated, std::back_inserter(ranked), &SimulatedPoint::fits);
    std::ranges::sort(ranked, [](const SimulatedPoint& a, const SimulatedPoint& b) {
      return ranks_before(a, b, Objective::time);
    });
    bool is_ever_left_open = false;
    for (const std::size_t rank : {std::size_t{1}, ranked.size() / 2, ranked.size()}) {
      const SimulatedPoint& wanted = ranked[rank - 1];
      const SearchOutcome outcome = given.search_with(wanted.candidate);
      const GivenOutcome& found = outcome.given.value();
      INFO(name << ": " << words_of(wanted.candidate));
      REQUIRE(found.point.has_value());
      CHECK(found.point->index == wanted.index);
      CHECK(found.point->step_time_s == wanted.step_time_s);
      CHECK(found.why_not_searched.empty());
      CHECK(found.num_ahead + 1 <= rank);
      CHECK(found.num_ahead + 1 + found.num_undecided >= rank);
      if (rank == 1) CHECK(found.num_undecided == 0);
      is_ever_left_open |= found.num_undecided > 0;
    }
    CHECK(is_ever_left_open);
    SearchHooks every;
    every.prunes = false;
    given.base.given = GivenLayout{ranked.back().candidate, {}};
    const GivenOutcome exact = search(given.base, given.request, every).given.value();
    CHECK(exact.num_ahead + 1 == ranked.size());
    CHECK(exact.num_undecided == 0);
  }
}

TEST_CASE("a given layout changes nothing of what a complete search finds") {
  GivenSpace given(small_space("layers that pp does not divide"));
  const Searched plain = searched(given.space, /*prunes=*/true);
  const SearchReport expected = report_of(plain.base, plain.request, plain.outcome);
  const std::vector<SimulatedPoint>& all = simulated_in_full(given.space).outcome.simulated;
  for (const SimulatedPoint& point : {all.front(), expected.ranked.front(), all.back()}) {
    INFO(words_of(point.candidate));
    const SearchOutcome outcome = given.search_with(point.candidate);
    const SearchReport found = report_of(given.base, given.request, outcome);
    CHECK(words_of_points(found.ranked) == words_of_points(expected.ranked));
    CHECK(words_of_points(found.front) == words_of_points(expected.front));
    CHECK(found.num_open == 0);
    CHECK(found.num_simulated + found.num_slower + found.num_too_large + found.num_refused ==
          found.num_candidates);
  }
}

TEST_CASE("a search that is stopped when it begins still ranks what it was given") {
  GivenSpace given(small_space("experts"));
  const Candidate candidate = simulated_in_full(given.space).outcome.simulated.back().candidate;
  given.base.given = GivenLayout{candidate, {}};
  SearchHooks hooks;
  bool has_begun = false;
  hooks.on_begin = [&has_begun] { has_begun = true; };
  hooks.stop = [&has_begun] { return has_begun ? SearchStop::time_limit : SearchStop::none; };
  const SearchOutcome outcome = search(given.base, given.request, hooks);
  REQUIRE(outcome.stop == SearchStop::time_limit);
  const GivenOutcome& found = outcome.given.value();
  REQUIRE(found.point);
  CHECK(found.point->candidate == candidate);
  CHECK(found.num_ahead + 1 + found.num_undecided <= outcome.num_candidates);
  CHECK(outcome.simulated.size() == 1);  // It is the only find.
}

TEST_CASE("a given layout whose simulation is stopped says so") {
  GivenSpace given(small_space("experts"));
  given.base.given =
      GivenLayout{simulated_in_full(given.space).outcome.simulated.back().candidate, {}};
  SearchHooks hooks;
  hooks.stop = [] { return SearchStop::time_limit; };
  const SearchOutcome outcome = search(given.base, given.request, hooks);
  CHECK_FALSE(outcome.given.value().point);
  CHECK(outcome.given->failure == "the search was stopped before its simulation ended");
}

TEST_CASE("a given layout's axes are those of --fix, and the others are 1 or off") {
  const SmallSpace space = small_spaces().front();
  const Candidate candidate = given_of(space, "tp=2,pp=2,zero_stage=1").candidate;
  CHECK(candidate.tp == 2);
  CHECK(candidate.pp == 2);
  CHECK(candidate.dp_shard == 2);
  CHECK(candidate.zero_stage == 1);
  CHECK(candidate.sequence_parallel);
  CHECK(candidate.schedule == "1f1b");
  CHECK(candidate.micro_batch_size == 1);
  CHECK(candidate.recompute == Recompute::none);
  CHECK(given_of(space, "pp=2,vpp=2").candidate.schedule == "interleaved_1f1b");
  CHECK_FALSE(given_of(space, "tp=2,sequence_parallel=false").candidate.sequence_parallel);
  CHECK(given_of(space, "recompute=full,micro_batch_size=2").candidate.micro_batch_size == 2);
  CHECK_THROWS_AS(given_of(space, "tq=2"), UsageError);
  CHECK_THROWS_AS(given_of(space, "tp=2,4"), UsageError);
  CHECK_THROWS_AS(given_of(space, "tp=3"), ScenarioError);
}

TEST_CASE("a given layout that is not searched says why, and is ranked all the same") {
  struct Left {
    const char* words;
    const char* why;
  };
  const Left cases[] = {
      {"tp=2,pp=4", "tp 2, cp 1 and pp 4"},
      {"tp=1,pp=2,dp_replicate=2", "ep 1, dp_replicate 2 and zero_stage 0"},
      {"pp=2,recompute=full", "recompute full"},
      {"pp=2,schedule=gpipe", "schedule gpipe and vpp 1"},
      {"tp=2,pp=2,sequence_parallel=false", "sequence_parallel false"},
  };
  for (const Left& each : cases) {
    const Printed printed = shardsim(plan_with(each.words, {"--json"}));
    INFO(each.words);
    REQUIRE(printed.exit_code == 0);
    const auto found = nlohmann::json::parse(printed.out)["given"];
    CHECK(found["searched"] == false);
    CHECK(contains(found["words"].get<std::string>(), each.why));
    CHECK(found["rank_from"].get<int>() >= 1);
    CHECK(found["metrics"]["step_time_s"].get<double>() > 0);
  }
}

TEST_CASE("a given layout with slices of experts is ranked beside layouts without") {
  SmallSpace space = small_space("experts in slices");
  space.fixed = {"tp=1", "cp=1", "pp=1", "recompute=none", "micro_batch_size=1", "zero_stage=1"};
  GivenSpace given(space);
  const Candidate candidate = given_of(space, "ep=2,etp=2,zero_stage=1").candidate;
  CHECK(candidate.ep == 2);
  CHECK(candidate.etp == 2);
  const GivenOutcome found = given.search_with(candidate).given.value();
  CHECK(contains(found.why_not_searched, "ep 2, etp 2, dp_replicate 1 and zero_stage 1"));
  CHECK(found.point.has_value());
}

TEST_CASE("a scenario's file gives its axes and the layers of its stages") {
  const TemporaryFolder folder;
  const std::string file = folder / "today.json";
  const auto write_layout = [&](const std::string& parallelism) {
    write(file, R"({"schema_version": 1, "name": "today", "model": {"preset": "gpt2"},
      "system": {"preset": "dgx-h100", "nodes": 1}, "parallelism": )" +
                    parallelism + R"(,
      "training": {"global_batch_size": 64, "micro_batch_size": 2}})");
  };
  write_layout(R"({"pp": 2, "dp_shard": 4, "zero_stage": 1})");
  const Printed even = shardsim(plan_with(file, {"--json"}));
  INFO(even.err);
  REQUIRE(even.exit_code == 0);
  const auto found = nlohmann::json::parse(even.out)["given"];
  CHECK(found["searched"] == true);
  CHECK(found["layout"] == "pp2 dp4 zero1 1f1b mb2");
  write_layout(R"({"pp": 2, "dp_shard": 4, "zero_stage": 1, "stage_layers": [5, 7]})");
  const Printed uneven = shardsim(plan_with(file, {"--json"}));
  REQUIRE(uneven.exit_code == 0);
  const auto other = nlohmann::json::parse(uneven.out)["given"];
  CHECK(other["searched"] == false);
  CHECK(contains(other["words"].get<std::string>(), "layers of its stages"));
  CHECK(other["metrics"]["step_time_s"] > found["metrics"]["step_time_s"]);
  const Printed same = shardsim(plan_with(file, {"--out", file}));
  CHECK(same.exit_code == 2);
  CHECK(contains(same.err, "E0910"));
}

TEST_CASE("a file of another model gives its degrees, and its stages as that file has them") {
  const TemporaryFolder folder;
  const std::string file = folder / "today.json";
  const auto write_layout = [&](const std::string& more) {
    write(file, R"({"schema_version": 1, "name": "today", "model": {"preset": "gpt2-xl"},
      "system": {"preset": "dgx-h100", "nodes": 1},
      "parallelism": {"pp": 2, "dp_shard": 4, "zero_stage": 1)" +
                    more + R"(},
      "training": {"global_batch_size": 64, "micro_batch_size": 2}})");
  };
  write_layout("");  // 48 layers there and 12 here.
  const Printed by_rule = shardsim(plan_with(file, {"--json"}));
  INFO(by_rule.err);
  REQUIRE(by_rule.exit_code == 0);
  CHECK(nlohmann::json::parse(by_rule.out)["given"]["searched"] == true);
  write_layout(R"(, "stage_layers": [25, 23])");
  const Printed listed = shardsim(plan_with(file, {}));
  CHECK(listed.exit_code == 2);
  CHECK(contains(listed.err, "in the given layout, "));
  CHECK(contains(listed.err, "--> --against " + file));
  write_layout(R"(, "account_for_embedding_in_pipeline_split": true,
    "account_for_loss_in_pipeline_split": true)");
  const Printed accounted = shardsim(plan_with(file, {"--json"}));
  REQUIRE(accounted.exit_code == 0);
  CHECK(nlohmann::json::parse(accounted.out)["given"]["searched"] == true);  // 6 and 6 either way.
  SearchRequest request;
  request.model = "gpt2";
  request.gpu = "h100";
  request.num_gpus = 8;
  request.against = file;
  write(file, R"({"schema_version": 1, "name": "today", "model": {"preset": "gpt2-xl"},
    "system": {"preset": "dgx-h100", "nodes": 1},
    "parallelism": {"pp": 4, "dp_shard": 2, "account_for_embedding_in_pipeline_split": true,
                    "account_for_loss_in_pipeline_split": true},
    "training": {"global_batch_size": 64}})");
  const GivenLayout given = prepare_search(request).given.value();
  CHECK(given.overrides ==
        std::vector<std::string>{"parallelism.account_for_embedding_in_pipeline_split=true",
                                 "parallelism.account_for_loss_in_pipeline_split=true"});
}

TEST_CASE("a given layout that is refused is named as it was written") {
  const char* const refused[] = {"ep=2", "tp=3", "pp=2,micro_batch_size=7",
                                 "pp=2,vpp=2,schedule=gpipe"};
  for (const std::string words : refused) {
    const Printed printed = shardsim(plan_with(words, {}));
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "]: in the given layout, "));
    CHECK(contains(printed.err, "--> --against " + words + "   at "));
    CHECK_FALSE(contains(printed.err, "--set"));
  }
}

TEST_CASE("an axis is given once, and a layout is not empty") {
  const Printed twice = shardsim(plan_with("tp=2,tp=4", {}));
  CHECK(twice.exit_code == 2);
  CHECK(contains(twice.err, "E1325]: tp is given twice: 2, and then 4"));
  const Printed fixed = shardsim(plan_with("tp=2", {"--fix", "pp=4"}));
  CHECK(fixed.exit_code == 2);
  CHECK(contains(fixed.err, "E1325]: pp is given twice: 1,2, and then 4"));
  CHECK(contains(fixed.err, "--fix pp=1,2,4"));
  const Printed set = shardsim(plan_with("tp=2", {"--set", "parallelism.pp=1"}));
  CHECK(contains(set.err, "pp is given twice"));
  const Printed none = shardsim(plan_with("", {}));
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "E1325]: \"\" is not an axis of the search"));
}

TEST_CASE("a plan shows the given layout beside the best, and asks for it again") {
  const TemporaryFolder folder;
  const std::string page = folder / "plan.html";
  const Printed printed = shardsim(plan_with("tp=4,zero_stage=1", {"--ascii", "--report", page}));
  REQUIRE(printed.exit_code == 0);
  for (const char* part : {"the given layout\n", "  >  tp4 ", "Against #1 it (tp 4 instead of ",
                           " % slower: ", " --against tp=4,zero_stage=1 "}) {
    INFO(part);
    CHECK(contains(printed.out, part));
  }
  CHECK(contains(content_of(page), "The given layout is tp4 "));
  const Printed plain = shardsim(plan_with("tp=1", {"--json"}));
  const auto best = nlohmann::json::parse(plain.out)["ranked"][0];
  std::string words;
  for (const char* axis : {"tp", "pp", "zero_stage", "micro_batch_size", "dp_replicate"}) {
    words += fmt::format("{}{}={}", words.empty() ? "" : ",", axis,
                         best["fields"][axis].get<std::int64_t>());
  }
  const Printed first = shardsim(plan_with(words, {"--json"}));
  const auto given = nlohmann::json::parse(first.out)["given"];
  CHECK(given["layout"] == best["layout"]);
  CHECK(given["rank_from"] == 1);
  CHECK(given["rank_to"] == 1);
}

TEST_CASE("where the given layout does not fit, its need is said") {
  const Printed printed =
      shardsim(plan_with("tp=1", {"--set", "system.device.memory_gib=3", "--json"}));
  INFO(printed.out);
  const auto given = nlohmann::json::parse(printed.out)["given"];
  CHECK(given["fits"] == false);
  CHECK(contains(given["words"].get<std::string>(), "It does not fit: it needs "));
}

}  // namespace shardsim::test
