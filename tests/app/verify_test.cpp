#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/json_writer.hpp"
#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/mutants/wrong_numbers.hpp"
#include "tests/sample.hpp"

// The scenarios that ship, run as they ship.
namespace shardsim::test {
namespace {

constexpr double kBound = 1e-9;  // The promise for fp64; honest rounding is about 1e-14.

Result run_of(const std::string& path, const std::vector<std::string>& overrides = {},
              const RunHooks& hooks = {}) {
  return run_scenario(load_scenario(path, overrides), hooks).result;
}

// A scenario as it ships, run once for all cases of this file.
const RunOutcome& shipped_run(const std::string& path) {
  static std::map<std::string, RunOutcome> runs;
  auto found = runs.find(path);
  if (found == runs.end()) found = runs.emplace(path, run_scenario(load_scenario(path))).first;
  return found->second;
}

// The full size of a large plan costs seconds and shows nothing that the others do not.
std::vector<std::string> quick_scenarios() {
  std::vector<std::string> quick;
  for (const std::string& path : all_scenarios()) {
    if (load_scenario(path).system.ranks <= 256) quick.push_back(path);
  }
  return quick;
}

std::vector<std::string> sample_of(std::vector<std::string> paths) {
  const auto is_left_out = [](const std::string& path) { return !in_sample(path, 6); };
  paths.erase(std::remove_if(paths.begin(), paths.end(), is_left_out), paths.end());
  REQUIRE(paths.size() > 10);
  return paths;
}

// These must be among them: every strategy and schedule alone, and their compositions.
constexpr const char* kVerified[] = {
    // Data parallelism.
    "mlp-ddp", "gpt-ddp", "gpt-zero1", "gpt-zero2", "gpt-zero3", "gpt-hsdp", "llama-ddp",
    "llama-zero1", "llama-zero2", "llama-zero3", "llama-hsdp", "gpt-zero2-offload",
    "llama-zero3-offload",
    // Data parallelism that changes the algorithm, or who takes part.
    "llama-top-k", "llama-int8", "mlp-local-sgd", "llama-local-sgd-tp2", "llama-diloco",
    "llama-diloco-zero2", "llama-diloco-fsdp", "llama-async-sgd", "llama-async-sgd-pp2-zero1",
    "llama-elastic",
    // Tensor and sequence parallelism.
    "gpt-tp4", "llama-tp2", "mlp-tp2", "gpt-sp2", "llama-sp2",
    // Pipelines.
    "gpt-pp4-gpipe", "gpt-pp4-1f1b", "llama-pp2-interleaved", "llama-pp2-looped-bfs",
    "gpt-pp3-zb-h1", "gpt-uneven-stages", "gpt-pp3-zb-h2", "gpt-pp4-zb-v", "llama-pp3-v-half",
    "gpt-pp4-v-min", "llama-pp2-schedule-file",
    // Context parallelism.
    "llama-cp2-ring", "gpt-cp4-ring", "gpt-cp3-all-gather", "llama-cp4-all-gather",
    "llama-cp2-ulysses", "gpt-cp4-ulysses", "llama-cp4-two-level",
    // Dropout and recomputation.
    "gpt-dropout", "gpt-pp2-selective", "llama-tp2-pp2-recompute",
    // Experts.
    "llama-ep4-uniform", "llama-ep4-learned", "llama-ep4-skewed", "llama-ep4-capacity",
    "llama-ep2-file", "llama-ep2-zero3", "llama-ep4-tp2-sp", "llama-moe-tp2-sp",
    "llama-ep2-pp2-dp2", "llama-ep2-hsdp-pp2",
    // Compositions.
    "gpt-tp2-dp4", "gpt-pp2-fsdp4", "llama-pp4-dp2-zero2", "llama-fsdp4-tp2",
    "gpt-tp2-pp2-dp2-zero1", "llama-tp2-pp2-dp2-sp", "llama-tp2-pp2-dp2-interleaved",
    "llama-cp2-tp2-dp2", "gpt-cp2-tp2-dp2-sp", "llama-cp2-fsdp4", "gpt-cp2-pp2-dp2",
    "llama-cp2-pp2-zb-h1", "gpt-cp4-two-level-dp2", "gpt-cp2-dropout-recompute",
    "llama-tp2-pp2-zb-h1", "llama-pp2-dp2-dualpipe-v", "gpt-tp2-pp2-dp2-zero1-zb-v",
    "gpt-hsdp-tp2-pp2", "gpt-tp2-pp2-dp2-zero2-offload", "llama-tp2-cp2-pp2-dp4-ep2",
    "llama-cp2-dp2-ep4-capacity", "llama-cp2-dp2-ep2-learned-fsdp", "llama-tp2-pp2-dp2-ep2-zb-v",
    "gpt-cp2-pp2-dp2-dualpipe-v", "llama-diloco-cp2-tp2"};

// Those of synchronous training, with products and moments in the precision of the rest: others are
// verified in fp64 alone.
std::vector<std::string> for_any_precision(const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    const Scenario scenario = load_scenario(path);
    const ParallelismSpec& parallelism = scenario.parallelism;
    const bool is_synchronous = !parallelism.changes_algorithm() && !parallelism.is_elastic();
    const TrainingSpec& training = scenario.training;
    const bool is_of_one_type =
        !training.has_low_products() && training.optimizer_state_dtype == training.master_dtype();
    if (is_synchronous && is_of_one_type) found.push_back(path);
  }
  return found;
}

// All verify scenarios but those that are about a narrower precision.
std::vector<std::string> fp64_scenarios() {
  std::vector<std::string> found;
  for (const std::string& path : verify_scenarios()) {
    if (load_scenario(path).training.precision == Precision::fp64) found.push_back(path);
  }
  return found;
}

}  // namespace

TEST_CASE("every verify scenario trains the same model as one device") {
  const std::vector<std::string> scenarios = fp64_scenarios();
  for (const char* name : kVerified) {
    INFO(name);
    const std::string path = "scenarios/verify-" + std::string(name) + ".json";
    CHECK(std::count(scenarios.begin(), scenarios.end(), path) == 1);
  }
  for (const std::string& path : scenarios) {
    const Result& result = shipped_run(path).result;
    INFO(path);
    CHECK(result.exit_code == 0);
    for (const char* kind : {"grads", "params", "optimizer_state", "loss"}) {
      const auto error = result.number(std::string("oracle.max_rel_error.") + kind);
      INFO(kind);
      REQUIRE(error);
      CHECK(*error < kBound);
    }
    const Scenario scenario = load_scenario(path);
    const ParallelismSpec& p = scenario.parallelism;
    const auto norm = result.number("oracle.max_rel_error.norm");
    const bool is_limited = scenario.training.max_grad_norm > 0.0;
    CHECK(norm.has_value() == (is_limited && !p.changes_algorithm() && !p.is_elastic()));
    CHECK(norm.value_or(0.0) < kBound);
    REQUIRE(result.checks.size() == 3);
    for (const Check& check : result.checks) CHECK(check.passed);
    // A comparison has happened. Ranks add up sums in another order than one device does, so exact
    // zeros would mean that nothing was compared. Compressed gradients may be added up in one order
    // only, and an update starts from the ranks' own gradients; with scales of their own, one
    // device goes through the microbatches as a rank does that has them all. There zeros are right,
    // and the count of compared pieces must do.
    const bool has_all = scenario.training.has_low_products() &&
                         p.tp * p.pp * p.cp >= scenario.system.ranks && p.tp * p.cp == 1;
    if (!p.compresses() && !has_all) {
      CHECK(*result.number("oracle.max_rel_error.grads") > 0.0);
    }
    const std::string& detail = result.checks.back().detail;
    const std::size_t digits =
        detail.find_last_not_of("0123456789", detail.find(" pieces") - 1) + 1;
    CHECK(std::stoll(detail.substr(digits)) > 100);
    CHECK(contains(detail, "losses of 5 steps equal one rank"));
    CHECK_FALSE(contains(detail, " 0 losses"));
  }
}

TEST_CASE("shapes suffice: runs with and without numbers have the same trace and metrics") {
  for (const std::string& path : verify_scenarios()) {
    // Decisions that depend on values are replayed: the record is empty but for skipped steps.
    const RunOutcome& outcome = shipped_run(path);
    const Result& real = outcome.result;
    const Result meta = run_of(path, {"execution.tensors=meta", kLargeDevice},
                               {.replay = &outcome.decisions.value()});
    INFO(path);
    CHECK(meta.exit_code == 0);
    // The model's work is no more than what the device executes, and that no more than it can. But
    // the count of Mamba-2 has work between products (docs/guide/models.md), which HFU leaves out.
    const std::vector<LayerSpec>& layers = load_scenario(path).model.layers;
    const bool has_mamba = std::ranges::any_of(
        layers, [](const LayerSpec& layer) { return has_mixer(layer.mixer, Mixer::mamba); });
    CHECK((has_mamba || *real.number("mfu") <= *real.number("hfu")));
    CHECK(*real.number("hfu") <= 1.0);
    for (const Metric& metric : meta.metrics) {
      INFO(metric.name);
      REQUIRE(real.find(metric.name) != nullptr);
      CHECK(*real.find(metric.name) == metric.value);
    }
    // The oracle's: the norm has one where it is limited and the ranks train as one device does.
    const bool has_norm = real.find("oracle.max_rel_error.norm") != nullptr;
    CHECK(real.metrics.size() == meta.metrics.size() + (has_norm ? 6 : 5));
  }
}

TEST_CASE("two runs, and runs whose ranks take turns in any order, give the same bytes") {
  for (const std::string& path : sample_of(quick_scenarios())) {
    const std::string json = to_json(shipped_run(path).result);
    INFO(path);
    CHECK(to_json(run_of(path)) == json);
    CHECK(to_json(run_of(path, {}, {.schedule = {.seed = 77}})) == json);
  }
}

TEST_CASE("compute, exposed communication and bubble are the step, to the picosecond") {
  for (const std::string& path : sample_of(quick_scenarios())) {
    const Result& result = shipped_run(path).result;
    const auto picoseconds = [&](const char* name) {
      return std::llround(*result.number(name) * 1e12);
    };
    INFO(path);
    CHECK(picoseconds("step_time_s") > 0);
    CHECK(picoseconds("time.compute_s") + picoseconds("time.exposed_comm_s") +
              picoseconds("time.bubble_s") ==
          picoseconds("step_time_s"));
    CHECK(picoseconds("time.hidden_comm_s") >= 0);
  }
}

// Here rounding is part of the strategy, so the bound is four times what rounding does to one rank,
// in half a step: then the reference goes on with what the ranks have. Else Adam would make a whole
// update of the noise in a gradient that is nearly zero, as that of the bias of keys.
TEST_CASE("narrow precisions pass with the bound of their own noise, under AdamW, over steps") {
  for (const std::string& path : sample_of(for_any_precision(fp64_scenarios()))) {
    if (!in_sample("noise of " + path, 2)) continue;  // The same.
    const Result fp32 = run_of(path, {"training.precision=fp32", "training.optimizer=adamw"});
    INFO(path);
    INFO(fp32.checks.back().detail);
    CHECK(fp32.exit_code == 0);
    CHECK(*fp32.number("oracle.max_rel_error.grads") > kBound);
    // ReLU jumps where a sum is near zero; this noise hides a factor of two for most seeds.
    if (load_scenario(path).model.family == ModelFamily::mlp) continue;
    const Result bf16 =
        run_of(path, {"training.precision=bf16", "execution.steps=3", "training.optimizer=adamw"});
    INFO(bf16.checks.back().detail);
    CHECK(bf16.exit_code == 0);
    // Optimizer states are kept in fp32, and judged as such: errors of bf16 would be 2^-9.
    CHECK(*bf16.number("oracle.max_rel_error.optimizer_state") < 0x1p-16);
  }
}

TEST_CASE("fp16 passes with the bound of its own noise, whatever is cut and reduced where") {
  for (const char* name :
       {"llama-ddp", "llama-zero2", "llama-zero3", "llama-tp2-pp2-dp2-sp", "gpt-hsdp-tp2-pp2"}) {
    INFO(name);
    const Result result = run_of(std::string("scenarios/verify-") + name + ".json",
                                 {"training.precision=fp16", "training.optimizer=adamw"});
    INFO(result.checks.back().detail);
    CHECK(result.exit_code == 0);
    CHECK(*result.number("oracle.max_rel_error.grads") > kBound);
  }
}

TEST_CASE("fp16 with loss scaling passes with the bound of its own noise, skipped steps included") {
  const std::string path = "scenarios/verify-gpt-tp2-pp2-dp2-fp16.json";
  const Result result = run_of(path);
  INFO(result.checks.back().detail);
  CHECK(result.exit_code == 0);
  CHECK(contains(result.checks.back().detail, "of these steps were skipped"));
  // Skips at the start, growth, and an overflow of the grown scale: the whole rule.
  CHECK(*result.number("loss_scaling.skipped_steps") >= 2);
  CHECK(*result.number("loss_scaling.skipped_steps") < 10);
  CHECK(*result.number("oracle.max_rel_error.grads") > 0.0);
}

TEST_CASE("narrow precisions do not hide a wrong factor or a lost bucket, under any layout") {
  for (const std::string& path : sample_of(for_any_precision(fp64_scenarios()))) {
    // The faults are those of sums over data-parallel ranks; one is rank 7's.
    const Scenario scenario = load_scenario(path);
    if (scenario.parallelism.gradient_ranks() == 1) continue;
    INFO(path);
    CHECK(scenario.training.ignore_fraction > 0.0);  // Else no rank is asked for its targets.
    for (const char* precision : {"fp32", "bf16"}) {
      if (!in_sample(path + precision, 6)) continue;  // Some take a minute.
      const std::vector<std::string> narrow = {std::string("training.precision=") + precision,
                                               "execution.steps=1", "training.optimizer=adamw"};
      INFO(path << " in " << precision);
      CHECK(run_of(path, narrow, {.wrap_world = plant(double_averaging())}).exit_code == 1);
      CHECK(run_of(path, narrow, {.wrap_world = plant(no_averaging())}).exit_code == 1);
      if (scenario.system.ranks < 8) continue;
      CHECK(run_of(path, narrow, {.wrap_world = plant(lost_contribution())}).exit_code == 1);
    }
  }
}

}  // namespace shardsim::test
