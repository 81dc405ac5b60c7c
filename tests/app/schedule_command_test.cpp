#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/timeline.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// `shardsim schedule`, schedules from files, and what a run says a pipeline idles.
namespace shardsim::test {
namespace {

constexpr const char* kOneEach = "scenarios/verify-gpt-pp4-1f1b.json";

// A copy of a scenario that runs the schedule of a file beside it.
class FileScenario {
 public:
  FileScenario(const std::string& scenario, const std::string& csv) {
    std::ofstream(folder_ / "own.csv", std::ios::binary) << csv;
    std::ofstream(folder_ / "own.json", std::ios::binary) << content_of(scenario);
  }
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {folder_ / "own.json", "--set", "parallelism.schedule=file",
                                      "--set", "parallelism.schedule_file=own.csv"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
};

std::string csv_of(const std::string& scenario, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"schedule", scenario, "--csv"};
  words.insert(words.end(), more.begin(), more.end());
  const Printed printed = shardsim(words);
  CHECK(printed.exit_code == 0);
  return printed.out;
}

nlohmann::json metrics_of(const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  all.emplace_back("--json");
  const Printed printed = shardsim(all);
  INFO(printed.out << printed.err);
  REQUIRE(printed.exit_code == 0);
  return nlohmann::json::parse(printed.out)["metrics"];
}

std::string swapped(std::string text, const std::string& one, const std::string& other) {
  const std::size_t first = text.find(one);
  const std::size_t second = text.find(other);
  REQUIRE(first < second);
  REQUIRE(second != std::string::npos);
  return text.substr(0, first) + other +
         text.substr(first + one.size(), second - first - one.size()) + one +
         text.substr(second + other.size());
}

}  // namespace

TEST_CASE("the verb shows a schedule, and what it idles and holds in both meanings") {
  const Printed shown = shardsim({"schedule", "scenarios/verify-gpt-pp3-zb-h2.json"});
  INFO(shown.out);
  CHECK(shown.exit_code == 0);
  CHECK(contains(shown.out, "schedule zb_h2: 3 ranks, 1 chunks, 6 microbatches, loop placement"));
  CHECK(contains(shown.out, "rank 2 .   .   2F0 2I0 2F1"));
  CHECK(contains(shown.out, "idle in the step                        2 of 20 units, 10.0 %"));
  CHECK(contains(shown.out, "idle from its first start to its end    0 of 20 units, 0.0 %"));
  CHECK(contains(shown.out, "in flight                               5 microbatches (5 chunks)"));
  CHECK(contains(shown.out, "messages in a step                        24"));
  CHECK(shardsim({"schedule", "scenarios/verify-gpt-ddp.json"}).exit_code == 2);
  CHECK(contains(shardsim({"schedule", "scenarios/verify-gpt-ddp.json"}).err, "E0911"));
}

TEST_CASE("a file with a schedule of ours runs as that does, in every byte of the trace") {
  for (const char* name : {"gpt-pp4-1f1b", "llama-pp2-looped-bfs", "gpt-pp4-zb-v",
                           "llama-pp2-dp2-dualpipe-v", "gpt-pp3-zb-h2"}) {
    const std::string scenario = "scenarios/verify-" + std::string(name) + ".json";
    const std::string hash = metrics_of({scenario})["trace_hash"];
    for (const bool lowered : {false, true}) {
      std::vector<std::string> form;
      if (lowered) form.emplace_back("--lowered");
      const FileScenario own(scenario, csv_of(scenario, form));
      INFO(name << (lowered ? " lowered" : ""));
      CHECK(metrics_of(own.words())["trace_hash"] == hash);
      // And is written again as it was.
      std::vector<std::string> words = {"schedule"};
      for (const std::string& word : own.words({"--csv"})) words.push_back(word);
      CHECK(shardsim(words).out == content_of(own.path("own.csv")));
    }
  }
}

TEST_CASE("swapped cells of a file end with exit code 4 and the file's line and cell") {
  // Line 2, cells 4 and 6: 1F2 after the backward of its microbatch.
  const std::string good = csv_of(kOneEach);
  const FileScenario own(kOneEach, swapped(good, "1F3,", "1B3,"));
  const Printed run = shardsim(own.words());
  INFO(run.out << run.err);
  CHECK(run.exit_code == 4);
  const std::string place = own.path("own.csv") + ":2, cell ";
  CHECK(contains(run.out, "SCHEDULE_WRONG"));
  const Printed json = shardsim(own.words({"--json"}));
  CHECK(json.exit_code == 4);
  const std::string summary = nlohmann::json::parse(json.out)["diagnosis"]["summary"];
  INFO(summary);
  CHECK(summary.rfind(place, 0) == 0);
  CHECK(contains(summary, "1B3 comes before 1F3 (cell "));
  // The verb says so, too, with the cells around it.
  std::vector<std::string> words = {"schedule"};
  for (const std::string& word : own.words()) words.push_back(word);
  const Printed shown = shardsim(words);
  CHECK(shown.exit_code == 4);
  CHECK(shown.err.rfind(place, 0) == 0);
  CHECK(contains(shown.err, "[1B3]"));
}

TEST_CASE("malformed cells of a file end with exit code 2, each with line and cell") {
  const FileScenario own(kOneEach, "0F0,0Q0\n1F0,,1Z\n");
  const Printed run = shardsim(own.words());
  INFO(run.err);
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "error[E0007]: cell 2 (0Q0) is no action"));
  CHECK(contains(run.err, own.path("own.csv") + ":1:5"));
  CHECK(contains(run.err, "error[E0007]: cell 3 (1Z) is no action"));
  CHECK(contains(run.err, own.path("own.csv") + ":2:6"));
}

TEST_CASE("a file that is missing, or of another shape than the scenario, is refused by name") {
  const auto refusal = [](const std::string& csv, const std::vector<std::string>& more) {
    const FileScenario own(kOneEach, csv);
    const Printed run = shardsim(own.words(more));
    CHECK(run.exit_code == 2);
    return run.err;
  };
  const std::string good = csv_of(kOneEach);
  CHECK(contains(refusal(good, {"--set", "parallelism.schedule_file=none.csv"}), "cannot find"));
  CHECK(contains(refusal(good, {"--set", "parallelism.schedule_file="}),
                 "needs parallelism.schedule_file"));
  const std::string folder = refusal(good, {"--set", "parallelism.schedule_file=."});
  CHECK(contains(folder, "is a folder"));
  CHECK_FALSE(contains(folder, "JSON"));
  CHECK(contains(refusal("0F0,0B0\n1F0,1B0\n", {}), "schedule_file has 2 lines"));
  CHECK(contains(refusal("0F0,0B0\n1F0,1B0\n2F0,2B0\n3F0,3B0\n", {}),
                 "schedule_file has 1 microbatches"));
  CHECK(contains(refusal(good, {"--set", "parallelism.vpp=2"}), "1 stages per rank, but vpp is 2"));
}

TEST_CASE("cells of sharded parameters in a file are a warning") {
  const std::string good = csv_of(kOneEach);
  const FileScenario own(kOneEach, "0UNSHARD," + good.substr(0, good.find('\n')) + ",0RESHARD" +
                                       good.substr(good.find('\n')));
  const Printed run = shardsim(own.words());
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out + run.err, "2 UNSHARD, RESHARD and REDUCE_GRAD cells"));
}

TEST_CASE("V schedules have two chunks without being asked, and refuse others by name") {
  const char* const scenario = "scenarios/verify-gpt-pp4-zb-v.json";
  CHECK(load_scenario(scenario).parallelism.vpp == 2);
  CHECK(load_scenario(kOneEach).parallelism.vpp == 1);
  const auto refusal = [&](const std::string& flag) {
    const Printed run = shardsim({scenario, "--set", flag});
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK(contains(refusal("parallelism.vpp=1"), "schedule \"zb_v\" runs two model chunks"));
  CHECK(contains(refusal("parallelism.vpp=3"), "schedule \"zb_v\" runs two model chunks"));
  CHECK(contains(refusal("parallelism.schedule=dualpipe_v"),
                 "dualpipe_v needs 8 microbatches at least with pp 4, but there are 7"));
}

// Kernels that cost their launch alone would make F, I and W unequal; so what a run says is
// compared between schedules and with its own step.
TEST_CASE("a run reports the idle time of its pipeline in both meanings") {
  const auto idle = [](const std::string& schedule) {
    const Result result =
        run_scenario(load_scenario("scenarios/verify-gpt-pp4-zb-v.json",
                                   {"execution.tensors=meta", "parallelism.schedule=" + schedule,
                                    "model.hidden_size=512", "model.ffn_hidden_size=2048",
                                    "model.seq_len=128", "system.device.memory_gib=64"}))
            .result;
    CHECK(result.exit_code == 0);
    struct Idle {
      double whole, in_span, step;
    };
    return Idle{*result.number("time.pipeline_idle_s.max"),
                *result.number("time.pipeline_idle_in_span_s.max"), *result.number("step_time_s")};
  };
  const auto plain = idle("1f1b");
  const auto v = idle("zb_v");
  CHECK(plain.in_span <= plain.whole);
  CHECK(plain.whole < plain.step);
  CHECK(v.in_span < v.whole);
  CHECK(v.whole < plain.whole / 2);
  CHECK(v.in_span < plain.in_span / 2);
  const Result alone = run_scenario(load_scenario("scenarios/verify-gpt-ddp.json")).result;
  CHECK_FALSE(alone.number("time.pipeline_idle_s.max"));
  const Printed screen = shardsim({kOneEach});
  CHECK(contains(screen.out, "on the worst rank"));
}

}  // namespace shardsim::test
