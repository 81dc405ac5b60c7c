#include <cmath>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/command/verbs.hpp"

#include "tests/app/command_fixture.hpp"

// `shardsim demo`: a screen that survives its reader's own arithmetic.
namespace shardsim::test {
namespace {

using nlohmann::json;

constexpr double kGpus = 128;
constexpr double kSequences = 128;
constexpr double kTokensPerSequence = 8192;

// Llama 3 70B, counted by hand: 80 layers of attention (queries and outputs 8192 x 8192, keys and
// values 8192 x 1024), three matrices 8192 x 28672 and two norms; two embeddings of 128,256 rows
// and the last norm.
constexpr double kParametersOfLayer =
    2.0 * 8192 * 8192 + 2.0 * 8192 * 1024 + 3.0 * 8192 * 28672 + 2.0 * 8192;
constexpr double kParameters = 80 * kParametersOfLayer + 2.0 * 128256 * 8192 + 8192;

bool is_near(double actual, double expected, double relative) {
  return std::abs(actual - expected) <= relative * std::abs(expected);
}

}  // namespace

TEST_CASE("the numbers of the demo fit each other") {
  const TemporaryFolder folder;
  const Printed printed = shardsim({"demo", "--json", "-q", "--out", folder.path()});
  REQUIRE(printed.exit_code == 0);
  const json metrics = json::parse(printed.out)["metrics"];
  const auto value = [&](const char* name) { return metrics[name].get<double>(); };
  constexpr double kRounding = 1e-9;

  const double step = value("step_time_s");
  const double tokens_per_s = kSequences * kTokensPerSequence / step;
  CHECK(is_near(value("tokens_per_s"), tokens_per_s, kRounding));
  CHECK(is_near(value("tokens_per_s_per_gpu"), tokens_per_s / kGpus, kRounding));
  // The step is all its parts.
  CHECK(is_near(value("time.compute_s") + value("time.exposed_comm_s") + value("time.bubble_s"),
                step, kRounding));
  // The share of the peak of a datasheet, 989 TFLOP/s.
  CHECK(is_near(value("mfu") * 989, value("model_tflops_per_gpu"), kRounding));
  // 6 flops per parameter and token but for the embedding's rows, which are looked up; attention
  // adds half of 12 x layers x hidden x length, as it is causal.
  const double flops_per_token =
      6 * (kParameters - 128256.0 * 8192) + 0.5 * 12 * 80 * 8192 * kTokensPerSequence;
  CHECK(is_near(value("model_tflops_per_gpu") * 1e12,
                flops_per_token * value("tokens_per_s_per_gpu"), 1e-3));
  // 32 microbatches through 4 stages: each stage waits 3 of 35 turns, but for what is no pipeline.
  const double idle = value("time.bubble_s") / step;
  CHECK(idle < 3.0 / 35.0);
  CHECK(idle > 0.8 * 3.0 / 35.0);
  // bf16 weights of the first stage: 20 layers and an embedding, split over 8 GPUs (but for norms).
  const double first_stage = 2 * (20 * kParametersOfLayer + 128256.0 * 8192) / 8;
  CHECK(is_near(value("memory.params_bytes.max"), first_stage, 1e-3));
  // fp32 master weights and two moments, shared by 4 replicas.
  CHECK(is_near(value("memory.optimizer_bytes.max"), first_stage / 2 * 12 / 4, 1e-3));
}

TEST_CASE("the demo prints the screen of its scenario and leaves it to be changed") {
  const TemporaryFolder folder;
  const Printed demo = shardsim({"demo", "--out", folder / "demo"});
  CHECK(demo.exit_code == 0);
  CHECK(contains(demo.out, "llama3-70b · 16 x NVIDIA DGX H100 · 128 ranks"));
  CHECK(contains(demo.out, "Next: shardsim " + folder / "demo/scenario.json"));
  CHECK(content_of(folder / "demo/scenario.json") == demo_scenario());
  CHECK(content_of(folder / "demo/step.pftrace").size() > 100000);
  CHECK(contains(demo.err, "wrote " + folder / "demo/step.pftrace"));

  const Printed again = shardsim({"-q", folder / "demo/scenario.json", "--out", folder / "again"});
  CHECK(again.exit_code == 0);
  CHECK(content_of(folder / "again/step.pftrace") == content_of(folder / "demo/step.pftrace"));
  CHECK(content_of(folder / "demo/report.html").rfind("<!doctype html>", 0) == 0);
}

TEST_CASE("what is proposed next after the demo is a better plan") {
  const TemporaryFolder folder;
  const Printed demo = shardsim({"demo", "--out", folder.path()});
  const std::string next = "Next: shardsim " + folder / "scenario.json" + " --set ";
  REQUIRE(contains(demo.out, next));
  const std::size_t begin = demo.out.find(next) + next.size();
  const std::string change = demo.out.substr(begin, demo.out.find('\n', begin) - begin);
  const auto step_of = [](const std::vector<std::string>& overrides) {
    const Result result =
        run_scenario(load_scenario_text(demo_scenario(), "demo.json", overrides)).result;
    CHECK(result.exit_code == 0);
    return result.number("step_time_s").value();
  };
  CHECK(step_of({"output.trace=", "output.report=", change}) <
        step_of({"output.trace=", "output.report="}));
}

TEST_CASE("a changed demo does not go by its old name, and what is next repeats the change") {
  const TemporaryFolder folder;
  const std::string file = "shardsim " + folder / "scenario.json";
  const Printed nodes = shardsim({"demo", "--out", folder.path(), "--set", "system.nodes=4",
                                  "--set", "training.micro_batch_size=2"});
  REQUIRE(nodes.exit_code == 0);
  CHECK(contains(nodes.out, "4 x NVIDIA DGX H100"));
  CHECK(contains(nodes.err, "next, in full: " + file +
                                " --set 'name=demo, changed' --set system.nodes=4"
                                " --set training.micro_batch_size=2 --set parallelism.tp=4\n"));
  const std::string page = content_of(folder / "report.html");
  CHECK(contains(page, "demo, changed"));
  CHECK_FALSE(contains(page, "on 16 DGX-H100"));
  CHECK(content_of(folder / "scenario.json") == demo_scenario());

  const Printed named = shardsim(
      {"demo", "--out", folder.path(), "--set", "name=it's mine", "--set", "parallelism.tp=4"});
  CHECK(contains(named.out + named.err,
                 file + " --set 'name=it'\\''s mine' --set parallelism.tp=4\n"));
  CHECK(contains(content_of(folder / "report.html"), "it&#39;s mine"));
}

TEST_CASE("a demo's scenario that somebody changed is not written over") {
  const TemporaryFolder folder;
  REQUIRE(shardsim({"demo", "-q", "--out", folder.path()}).exit_code == 0);
  CHECK(shardsim({"demo", "-q", "--out", folder.path()}).exit_code == 0);
  write(folder / "scenario.json", "{}");
  const Printed printed = shardsim({"demo", "--out", folder.path()});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "E0969"));
  CHECK(contains(printed.err, "--out"));
  CHECK(content_of(folder / "scenario.json") == "{}");
}

}  // namespace shardsim::test
