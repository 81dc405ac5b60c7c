#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {

namespace {

std::vector<std::string> question_with(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"plan",
                                    "gpt2",
                                    "--gpus",
                                    "4..8",
                                    "--gpu",
                                    "h100,a100",
                                    "-q",
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

nlohmann::json rows_of(const Printed& printed) {
  REQUIRE(printed.exit_code == 0);
  return nlohmann::json::parse(printed.out)["rows"];
}

}  // namespace

TEST_CASE("desk point 10: each row of a question has the layout, days and range of its own plan") {
  const nlohmann::json rows = rows_of(shardsim(question_with({"--json", "--tokens", "1T"})));
  REQUIRE(rows.size() == 4);
  for (const nlohmann::json& row : rows) {
    std::vector<std::string> words = question_with({"--json", "--tokens", "1T"});
    words[3] = row["gpus"].dump();
    words[5] = row["gpu"];
    const Printed planned = shardsim(words);
    REQUIRE(planned.exit_code == 0);
    const nlohmann::json best = nlohmann::json::parse(planned.out)["ranked"][0];
    INFO(row["gpu"] << " " << row["gpus"]);
    CHECK(row["complete"] == true);
    CHECK(row["layout"] == best["layout"]);
    CHECK(row["metrics"] == best["metrics"]);
    CHECK(row["error_bands"] == best["error_bands"]);
    CHECK(row["days"] == best["days"]);
  }
}

TEST_CASE("all machines of a question have the same batch, precision and framework") {
  const Printed printed =
      shardsim({"plan", "gpt2", "--gpus", "8,24", "--gpu", "h100", "-q", "--json", "--fix",
                "recompute=none", "--fix", "schedule=none", "--fix", "micro_batch_size=1",
                "--software", "megatron-core-2025"});
  REQUIRE(printed.exit_code == 0);
  const auto answer = nlohmann::json::parse(printed.out);
  CHECK(answer["global_batch_size"].get<int>() % 3 == 0);
  CHECK(answer["rows"].size() == 2);
  for (const auto& row : answer["rows"]) CHECK(row["fate"] == "holds");
  CHECK_FALSE(contains(printed.out, "priced as"));
}

// Alone, the smaller machine would have a smaller default batch: another training.
TEST_CASE("the next command of a question has the batch of its rows") {
  const Printed asked =
      shardsim({"plan", "gpt2", "--gpus", "8,2048", "--gpu", "h100", "-q", "--fix",
                "recompute=none", "--fix", "schedule=none", "--fix", "micro_batch_size=1", "--fix",
                "tp=1", "--fix", "cp=1", "--fix", "pp=1"});
  REQUIRE(asked.exit_code == 0);
  CHECK(contains(asked.out, "global batch 8,192\n"));
  CHECK(contains(asked.out, " --global-batch-size 8192 "));
}

TEST_CASE("what belongs to the layouts of one machine is refused in a question about several") {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--against", "tp=2"},
                                               {"--objective", "memory"},
                                               {"--precision", "fp8,bf16"}}) {
    const Printed refused = shardsim(question_with(more));
    INFO(more.front());
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "E1330"));
    CHECK(contains(refused.err, more.front()));
  }
}

TEST_CASE("a number of GPUs that fills no nodes of one kind loses one row") {
  std::vector<std::string> words = question_with({"--json"});
  words[3] = "128";
  words[5] = "h100,gb200";
  const nlohmann::json rows = rows_of(shardsim(words));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["gpu"] == "h100");
  CHECK(rows[0]["fate"] == "holds");
  words[3] = "24,52";
  words[5] = "h100";
  const nlohmann::json counts = rows_of(shardsim(words));
  CHECK(counts[1]["gpus"] == 52);
  CHECK(counts[1]["fate"] == "no_layout");
  CHECK(counts[1]["lost_to"] == nlohmann::json{"layout"});
  CHECK(contains(counts[1]["reason"].get<std::string>(), "52"));
  words[3] = "52";
  words[5] = "h100,a100";
  CHECK(shardsim(words).exit_code == 2);
}

TEST_CASE("one machine under two names is refused") {
  std::vector<std::string> words = question_with({});
  words[5] = "h100,dgx-h100";
  const Printed refused = shardsim(words);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "E1336"));
}

TEST_CASE("a deadline needs tokens and a budget needs prices, from options or the scenario") {
  CHECK(contains(shardsim(question_with({"--deadline", "9d"})).err, "E1338"));
  CHECK(contains(shardsim(question_with({"--tokens", "1T", "--budget", "1M"})).err, "E1338"));
  CHECK(contains(
      shardsim(question_with({"--tokens", "1T", "--budget", "1M", "--usd-per-gpu-hour", "h100=2"}))
          .err,
      "E1338"));
  const Printed given =
      shardsim(question_with({"--json", "--deadline", "9000d", "--budget", "9G", "--set",
                              "training.tokens_total=1e12", "--set", "cost.usd_per_gpu_hour=3"}));
  for (const nlohmann::json& row : rows_of(given)) CHECK(row["usd_per_gpu_hour"] == 3.0);
}

TEST_CASE("an unknown GPU of a list is refused before any search") {
  std::vector<std::string> words = question_with({});
  words[5] = "h100,h900";
  const Printed refused = shardsim(words);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "E1322"));
  CHECK(contains(refused.err, "h900"));
}

TEST_CASE("a margin of memory ranks tight layouts last, and fields of failures reach the goodput") {
  const Printed printed =
      shardsim(question_with({"--json", "--memory-margin", "12.5%", "--failures",
                              "gpu_mtbf_hours=1000,restart_s=600,checkpoint_write_s=30"}));
  REQUIRE(printed.exit_code == 0);
  const auto answer = nlohmann::json::parse(printed.out);
  CHECK(answer["memory_margin"] == 0.125);
  CHECK(answer["downtime_included"] == true);
  for (const auto& row : answer["rows"]) CHECK(row["goodput"].get<double>() < 1.0);
}

}  // namespace shardsim::test
