#include <filesystem>
#include <iterator>
#include <sstream>

#include <catch2/catch.hpp>

#include "sim/command/verbs.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep_summary.hpp"

#include "tests/app/command_fixture.hpp"

// The summary that a sweep gives at its end.
namespace shardsim::test {

namespace {

const std::vector<SweepObjective> kFastAndSmall = {{true, "tokens_per_s"},
                                                   {false, "memory.peak_bytes.max"}};

std::vector<ScoredPoint> points(const std::vector<std::vector<double>>& scores) {
  std::vector<ScoredPoint> all;
  for (const std::vector<double>& score : scores) {
    all.push_back({.point = all.size(), .values = {"1"}, .scores = score});
  }
  return all;
}

}  // namespace

TEST_CASE("the front has what no other point beats in all objectives", "[sweep]") {
  using Places = std::vector<std::size_t>;
  CHECK(pareto_front({}, kFastAndSmall).empty());
  CHECK(pareto_front(points({{5, 5}, {7, 9}, {6, 9}, {5, 4}, {1, 1}}), kFastAndSmall) ==
        Places{1, 3, 4});
  // Equal ones stay, and one that is as fast but larger does not.
  CHECK(pareto_front(points({{5, 5}, {5, 5}, {5, 6}}), kFastAndSmall) == Places{0, 1});
  CHECK(pareto_front(points({{5}, {7}, {7}}), {{false, "step_time_s"}}) == Places{0});
}

TEST_CASE("the front equals that of all pairs", "[sweep]") {
  std::vector<std::vector<double>> scores;
  for (int i = 0; i < 60; ++i) {
    scores.push_back({static_cast<double>(i * 37 % 11), static_cast<double>(i * 53 % 13)});
  }
  const std::vector<ScoredPoint> all = points(scores);
  std::set<std::size_t> front;
  for (std::size_t a = 0; a < all.size(); ++a) {
    bool beaten = false;
    for (const ScoredPoint& b : all) {
      const bool as_good = b.scores[0] >= all[a].scores[0] && b.scores[1] <= all[a].scores[1];
      beaten = beaten || (as_good && b.scores != all[a].scores);
    }
    if (!beaten) front.insert(a);
  }
  const std::vector<std::size_t> found = pareto_front(all, kFastAndSmall);
  CHECK(std::set<std::size_t>(found.begin(), found.end()) == front);
  CHECK(found.size() == front.size());
}

TEST_CASE("the summary counts, ranks and says what is next", "[sweep]") {
  const TemporaryFolder folder;
  const Printed printed = shardsim({"sweep", kPlan, "--axis", "parallelism.zero_stage=0,3",
                                    "--axis", "training.num_microbatches=1,2", "--out",
                                    folder / "a", "--set", "execution.fold=auto", "--jobs", "1"});
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.err, "4 points computed, 0 already done; results in"));
  // Microbatches follow from the batch: one of two values is right. 8B parameters fit sharded only.
  CHECK(contains(printed.out, "points: 1 ok, 2 invalid, 1 out_of_memory\n"));
  CHECK(contains(printed.out, "\n  invalid: 2 x E0210; point 0: global batch, micro-batch"));
  CHECK(contains(printed.out, "\n  out_of_memory: 1 x memory; point 1: rank"));
  CHECK(contains(printed.out, "max tokens_per_s_per_gpu\n"));
  CHECK(contains(printed.out, "  point  zero_stage  num_microbatches  tokens_per_s_per_gpu"));
  CHECK(contains(printed.out, "Pareto front: 1 of 1 points\n"));
  CHECK(contains(printed.out, "Next: shardsim merge " + (folder / "a") + " --csv -o"));
  const Printed rows = shardsim({"sweep", kPlan, "--axis", "parallelism.zero_stage=0,3", "--axis",
                                 "training.num_microbatches=1,2", "--out", folder / "a", "--set",
                                 "execution.fold=auto", "--format", "ndjson"});
  CHECK(rows.out == shardsim({"merge", folder / "a"}).out);
  CHECK(contains(rows.out, R"("status":"out_of_memory","code":"memory","message":"rank)"));
  CHECK(contains(rows.out, R"("status":"invalid","code":"E0210")"));
}

TEST_CASE("the summary tells the commonest reason of each status", "[sweep]") {
  SweepFindings findings;
  findings.counts = {0, 3, 0, 1};
  findings.reasons[1] = {{"E0203", {1, 0, "rare"}}, {"E0210", {2, 4, "one\x1b[31m"}}};
  findings.reasons[3] = {{"internal", {1, 7, "std::bad_alloc"}}};
  CHECK(summary_text(findings, {}, {}) ==
        "points: 3 invalid, 1 failed\n"
        "  invalid: 2 x E0210; point 4: one\\x1b[31m\n"
        "  failed: 1 x internal; point 7: std::bad_alloc\n"
        "    the next run of the sweep computes these again\n");
}

TEST_CASE("a sweep computes again what failed here", "[sweep]") {
  const TemporaryFolder folder;
  const std::vector<std::string> command = {"sweep", kPlan,        "--axis", "execution.seed=1,2",
                                            "--out", folder / "a", "--set",  "execution.fold=auto"};
  REQUIRE(shardsim(command).exit_code == 0);
  const std::string whole = shardsim({"merge", folder / "a"}).out;
  const std::string part = folder / "a/part-0-of-1.ndjson";
  std::string text = content_of(part);
  const std::string fine = R"("status":"ok","code":"")";
  REQUIRE(contains(text, fine));
  text.replace(text.find(fine), fine.size(), R"("status":"failed","code":"internal")");
  write(part, text);
  CHECK(contains(shardsim(command).err, "1 points computed, 1 already done"));
  CHECK(shardsim({"merge", folder / "a"}).out == whole);
}

TEST_CASE("the first example of the help has no invalid point", "[sweep]") {
  const TemporaryFolder folder;
  std::istringstream line(sweep_verb().examples.front().first);
  std::vector<std::string> words{std::istream_iterator<std::string>(line), {}};
  words.erase(words.begin());
  words.insert(words.end(), {"--out", folder / "a", "--set", "execution.fold=auto"});
  const Printed printed = shardsim(words);
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "points: 4 ok, 2 out_of_memory\n"));
}

TEST_CASE("points of a preset that has changed are computed again", "[sweep]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "models");
  const auto write_model = [&](const std::string& hidden_size) {
    write(folder / "models/tiny.json",
          R"({"family": "mlp", "num_layers": 2, "ffn_hidden_size": 37, "vocab_size": 11, )"
          R"("hidden_size": )" +
              hidden_size + "}");
  };
  write(folder / "s.json",
        R"({"schema_version": 1, "model": "tiny", "system": {"preset": "dgx-h100", "nodes": 1},
            "training": {"global_batch_size": 16, "precision": "bf16"},
            "sweep": {"axes": {"parallelism.zero_stage": [0, 1]}}})");
  const auto sweep_into = [&](const std::string& out) {
    const Printed printed = shardsim({"sweep", folder / "s.json", "--out", folder / out});
    INFO(printed.out << printed.err);
    CHECK(printed.exit_code == 0);
    return printed.err.substr(0, printed.err.find(';'));
  };
  write_model("24");
  CHECK(sweep_into("a") == "2 points computed, 0 already done");
  const std::string old = shardsim({"merge", folder / "a"}).out;
  CHECK(sweep_into("a") == "0 points computed, 2 already done");
  write_model("48");
  CHECK(sweep_into("a") == "2 points computed, 0 already done");
  CHECK(sweep_into("fresh") == "2 points computed, 0 already done");
  CHECK(shardsim({"merge", folder / "a"}).out == shardsim({"merge", folder / "fresh"}).out);
  CHECK(shardsim({"merge", folder / "a"}).out != old);
  write_model("24");
  CHECK(sweep_into("a") == "2 points computed, 0 already done");
  CHECK(shardsim({"merge", folder / "a"}).out == old);
}

TEST_CASE("points are listed without being run, with their values for a shell", "[sweep]") {
  const TemporaryFolder folder;
  const Printed printed = shardsim({"sweep", kPlan, "--axis", "training.precision=bf16,fp32",
                                    "--list", "--shard", "1/2", "--out", folder / "a"});
  CHECK(printed.out == "1 'training.precision=\"fp32\"'\n");
  CHECK(files_in(folder).empty());
}

TEST_CASE("scripts cut a sweep into parts worth a start", "[sweep]") {
  CHECK(default_shards(1) == 1);
  CHECK(default_shards(51) == 2);
  CHECK(default_shards(1000000) == 64);
  CHECK(shell_word("a b'c") == "'a b'\\''c'");
  const PartHeader header{.num_points = 100, .command = "shardsim sweep f.json --out d"};
  const std::string slurm = script_of(header, {"slurm", "d", 4});
  CHECK(contains(slurm, "#SBATCH --array=0-3\n"));
  CHECK(contains(slurm, "exec shardsim sweep f.json --out d --shard auto\n"));
  CHECK(contains(script_of(header, {"parallel", "d", 4}),
                 "seq 0 3 | parallel shardsim sweep f.json --out d --jobs 1 --shard '{}'/4\n"));
  CHECK(contains(script_of(header, {"make", "d", 4}),
                 "\tshardsim sweep f.json --out d --jobs 1 --shard $*/4\n"));
}

TEST_CASE("mistakes on the command line are refused", "[sweep]") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--time-limit", "soon"},
                                                {"--time-limit", "5x"},
                                                {"--jobs", "-1"}}) {
    std::vector<std::string> arguments = {"sweep", kPlan, "--axis", "parallelism.tp=1"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Printed printed = shardsim(arguments);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "error[E1318]"));
  }
}

}  // namespace shardsim::test
