#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/pages.hpp"
#include "sim/search/search_report.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

namespace {

std::vector<std::string> plan(const std::string& model, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"plan",
                                    model,
                                    "--gpus",
                                    "8",
                                    "--gpu",
                                    "h100",
                                    "-q",
                                    "--time-limit",
                                    "0",
                                    "--global-batch-size",
                                    "8",
                                    "--fix",
                                    "recompute=none",
                                    "--fix",
                                    "schedule=none,1f1b",
                                    "--fix",
                                    "micro_batch_size=1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("the scenario that a plan writes gives the plan's numbers") {
  const TemporaryFolder folder;
  const std::string file = folder / "best.json";
  const Printed planned = shardsim(plan("gpt2", {"--json", "--out", file}));
  REQUIRE(planned.exit_code == 0);
  const Printed run = shardsim({file, "--json", "-q"});
  REQUIRE(run.exit_code == 0);
  const auto best = nlohmann::json::parse(planned.out)["ranked"][0]["metrics"];
  const auto metrics = nlohmann::json::parse(run.out)["metrics"];
  CHECK(best.size() > 10);
  for (const auto& [name, value] : best.items()) {
    INFO(name);
    CHECK(metrics[name] == value);
  }
}

TEST_CASE("one GPU is not several, and the front says whose prices it has") {
  const Printed one = shardsim({"plan", "gpt2", "--gpus", "1", "--gpu", "h100", "-q",
                                "--global-batch-size", "8", "--fix", "micro_batch_size=8"});
  CHECK(contains(one.out, "gpt2 on 1 GPU of "));
  CHECK(contains(one.out, "x the fastest step; all by the model\n"));
}

TEST_CASE("any value of the scenario that a plan writes may be changed alone") {
  const TemporaryFolder folder;
  const std::string file = folder / "best.json";
  REQUIRE(shardsim(plan("gpt2", {"--out", file})).exit_code == 0);
  const Scenario best = load_scenario(file);
  CHECK(best.system.ranks == 8);
  const Scenario more = load_scenario(file, {"training.global_batch_size=256"});
  CHECK(more.training.num_microbatches > best.training.num_microbatches);
  const std::vector<std::string> twice = {"system.nodes=2", "training.global_batch_size=16"};
  CHECK(load_scenario(file, twice).system.ranks == 16);
  CHECK(load_scenario(file, {"parallelism.tp=4"}).parallelism.dp_shard < best.parallelism.dp_shard);
  const Scenario deep = load_scenario(file, {"parallelism.pp=2"});
  CHECK(deep.parallelism.schedule == "1f1b");
  CHECK(deep.parallelism.stage_layers == std::vector<std::int64_t>{6, 6});
  const Scenario larger =
      load_scenario(file, {"training.micro_batch_size=2", "training.global_batch_size=32"});
  CHECK(larger.training.num_microbatches == 2);
}

TEST_CASE("the page of a plan has the ranking, the counts and the assumptions of the text") {
  const TemporaryFolder folder;
  const std::string file = folder / "plan.html";
  const Printed planned = shardsim(plan("gpt2", {"--json", "--report", file}));
  REQUIRE(planned.exit_code == 0);
  const auto found = nlohmann::json::parse(planned.out);
  const std::string page = content_of(file);
  CHECK(contains(page, "gpt2 on 8 GPUs of "));
  CHECK(contains(page, fmt::format("{} layouts: {} simulated in full",
                                   found["counts"]["candidates"].get<int>(),
                                   found["counts"]["simulated"].get<int>())));
  CHECK(found["ranked"].size() > 1);
  for (const auto& point : found["ranked"]) {
    CHECK(contains(page, point["layout"].get<std::string>()));
  }
  for (const auto& assumption : found["assumptions"]) {
    const auto words = assumption.get<std::string>();
    CHECK(contains(page, "<li>" + words.substr(0, words.find('\''))));  // A quote is escaped.
  }
}

TEST_CASE("the page of a plan counts what failed and what was not looked at") {
  SearchReport report;
  report.num_candidates = 9;
  report.num_simulated = 2;
  report.num_refused = 1;
  report.num_failed = 3;
  report.first_failed = "tp2 dp4";
  report.first_failure = "no route";
  report.num_open = 3;
  report.stop = SearchStop::interrupt;
  CHECK(page_of(report).counts ==
        "9 layouts: 2 simulated in full, 0 shown by bounds to be worse, 0 shown not to fit. 1 "
        "turned out to be invalid. 3 failed, the first (tp2 dp4) with: no route. 3 were left open. "
        "The "
        "search was interrupted: no layout that fits was found so far; nothing is known of the "
        "rest.");
}

TEST_CASE("a plan prints its assumptions, a table, the front and the next command") {
  const Printed printed = shardsim(plan("gpt2", {"--usd-per-gpu-hour", "2", "--ascii"}));
  REQUIRE(printed.exit_code == 0);
  for (const char* part :
       {"assumed: ", "fastest first", "/1T tokens", "why #1 and not #2", "Pareto front (*), up to",
        "simulated in full", "next: shardsim plan gpt2 --gpus 8 --gpu h100 "}) {
    INFO(part);
    CHECK(contains(printed.out, part));
  }
}

TEST_CASE("the next command is the one that was run, as a shell reads it") {
  const Printed printed =
      shardsim(plan("gpt2", {"--objective", "memory", "--top", "3", "--front-within", "1.5",
                             "--usd-per-gpu-hour", "2.5", "--set", "name=it's a; test"}));
  REQUIRE(printed.exit_code == 0);
  CHECK(contains(printed.out, " --set 'name=it'\\''s a; test' --fix "));
  CHECK(contains(
      printed.out,
      " --objective memory --top 3 --front-within 1.5 --usd-per-gpu-hour 2.5 --time-limit 0 "
      "--emit megatron --out best.json\n"));
  const Printed plain = shardsim(plan("gpt2"));
  CHECK(contains(plain.out, " --fix micro_batch_size=1 --time-limit 0 --emit megatron"));
  // Megatron-LM has no such block.
  const std::vector<std::string> parallel = {"--set", "model.parallel_block=true"};
  const Printed other = shardsim(plan("llama3-8b", parallel));
  REQUIRE(other.exit_code == 0);
  CHECK(contains(other.out, " --time-limit 0 --out best.json"));
  std::vector<std::string> emitted = parallel;
  emitted.insert(emitted.end(), {"--emit", "megatron"});
  const Printed refused = shardsim(plan("llama3-8b", emitted));
  CHECK(refused.exit_code == 2);
  CHECK(
      contains(refused.err, "megatron cannot say: Megatron-LM has no branches beside each other"));
  CHECK(refused.out.empty());
  emitted.emplace_back("--approximate");
  const Printed nearest = shardsim(plan("llama3-8b", emitted));
  CHECK(nearest.exit_code == 0);
  CHECK(contains(nearest.out, "# Megatron-LM has no branches beside each other"));
}

TEST_CASE("a plan says what is wrong and how to go on") {
  const Mistake mistakes[] = {
      {{"plan", "llama3-70", "--gpus", "8", "--gpu", "h100"},
       "no model is called \"llama3-70\"",
       "= help: write \"llama3-70b\""},
      {{"plan", "gpt2", "--gpus", "8", "--gpu", "h10"},
       "no GPU or system",
       "= help: write \"h100\""},
      {{"plan", "gpt2", "--gpus", "12", "--gpu", "h100"},
       "12 ranks do not fill nodes of 8 GPUs",
       "8 or 16"},
      {{"plan", "gpt2", "--gpus", "0", "--gpu", "h100"}, "0 GPUs", "--gpus 128"},
      {{"plan", "gpt2", "--gpus", "8", "--gpu", "h100", "--emit", "jax"}, "\"jax\"", "torchtitan"},
      {{"plan", "gpt2", "--gpus", "8", "--gpu", "h100", "--top", "0"},
       "--top 0 is out of range",
       "from 1 to"},
      {{"plan", "gpt2", "--gpus", "8", "--gpu", "h100", "--fix", "tq=1"},
       "is not an axis of the search",
       "\"tp\""},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim(mistake.arguments);
    INFO(mistake.said);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
  }
}

TEST_CASE("a plan of fewer GPUs than a node has is of a part of a node") {
  const Printed printed =
      shardsim({"plan", "gpt2", "--gpus", "4", "--gpu", "h100", "-q", "--json", "--time-limit", "0",
                "--global-batch-size", "8", "--fix", "recompute=none"});
  REQUIRE(printed.exit_code == 0);
  const auto found = nlohmann::json::parse(printed.out);
  CHECK(found["gpus"] == 4);
  CHECK(found["ranked"][0]["metrics"]["mfu"] > 0);
}

TEST_CASE("a plan that could not be written down is not searched for") {
  const TemporaryFolder folder;
  for (const char* flag : {"--csv", "--report", "--out"}) {
    for (const std::string& path : {folder / "none/plan.html", folder.path()}) {
      const Printed printed = shardsim(plan("gpt2", {flag, path}));
      INFO(flag);
      CHECK(printed.exit_code == 2);
      CHECK(contains(printed.err, "E0901"));
      CHECK(printed.out.empty());  // Nothing was found in vain.
    }
  }
}

TEST_CASE("where nothing fits a plan ends with 3 and the nearest miss") {
  const TemporaryFolder folder;
  const std::string file = folder / "plan.html";
  const Printed printed =
      shardsim(plan("gpt2", {"--set", "system.device.memory_gib=0.05", "--report", file}));
  CHECK(printed.exit_code == 3);
  CHECK(contains(printed.out, "nothing fits"));
  CHECK(contains(printed.out, "smallest layout that does not fit"));
  CHECK(contains(content_of(file), "smallest layout that does not fit"));
}

}  // namespace shardsim::test
