#include "sim/experiment/assumptions.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

#include "strategies/training/train.hpp"

#include "scenarios/load.hpp"
#include "sim/run/decision_file.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// A result says what it rests on where values decide: the rule of the loss scale, and the record.
namespace shardsim::test {
namespace {

bool says(const std::vector<Assumption>& assumptions, const std::string& text) {
  return std::any_of(assumptions.begin(), assumptions.end(),
                     [&text](const Assumption& assumption) { return assumption.text == text; });
}

bool scenario_says(const std::vector<std::string>& overrides, const std::string& text) {
  return says(compile(skipping(overrides)).assumptions(), text);
}

// Answers of all ranks in every step: the first `skipped` are yes.
DecisionLog record_of(const Scenario& scenario, std::int64_t skipped) {
  DecisionLog log(static_cast<int>(scenario.system.ranks));
  for (int rank = 0; rank < log.num_ranks(); ++rank) {
    for (std::int64_t step = 0; step < scenario.execution.steps; ++step) {
      log.add(rank, kSkipStep, step < skipped);
    }
  }
  return log;
}

}  // namespace

TEST_CASE("a result says whether it was replayed, and of which record") {
  const Scenario meta = skipping({"execution.tensors=meta", kLargeDevice});
  const std::string unskipped = "No step is skipped for an overflow";
  const Result planned = run_scenario(meta).result;
  CHECK(says(planned.assumptions, unskipped));
  CHECK_FALSE(scenario_says({}, unskipped));  // Real tensors skip what overflows.
  for (const std::int64_t skipped : {0, 1, 4}) {
    INFO(skipped);
    const DecisionLog record = record_of(meta, skipped);
    const Result replayed = run_scenario(meta, {.replay = &record}).result;
    CHECK(replayed.exit_code == 0);
    CHECK_FALSE(says(replayed.assumptions, unskipped));
    CHECK(says(replayed.assumptions, "decisions are replayed: " + std::to_string(skipped) +
                                         (skipped == 1 ? " step" : " steps") + " skipped, record " +
                                         hash_of(record, compile(meta))));
  }
  // The name of a record is that of its content, of any machine that is planned with it.
  const auto name_of_record = [&](std::int64_t skipped, const Scenario& scenario) {
    return hash_of(record_of(meta, skipped), compile(scenario));
  };
  CHECK(name_of_record(1, meta) != name_of_record(4, meta));
  CHECK(name_of_record(4, skipping({"system.device.kernel_launch_us=7"})) ==
        name_of_record(4, meta));
}

TEST_CASE("the page shows the scale and how many steps were skipped, where scaling acts") {
  const std::string row = "  loss scale    ";
  const Printed text =
      shardsim({kSkipping, "--set", "execution.tensors=meta", "--set", kLargeDevice});
  CHECK(text.exit_code == 0);
  // 2^20, doubled after every two of ten good steps.
  CHECK(contains(text.out, row + "33554432 at the end, 0 of 10 steps skipped\n"));
  CHECK_FALSE(contains(shardsim({"scenarios/verify-gpt-ddp.json"}).out, row));
}

TEST_CASE("a result names the minimum that the loss scale has, and its hysteresis") {
  CHECK(scenario_says({}, "The loss scale doubles, or halves down to 1"));
  CHECK(scenario_says({"training.loss_scale=0.25"},
                      "The loss scale doubles, or halves down to 0.25"));
  CHECK(scenario_says(
      {"training.loss_scale_hysteresis=3"},
      "The loss scale doubles, or halves down to 1; overflow number 3 since it last grew is "
      "the first that halves it, and every one after it does"));
}

TEST_CASE("gradients that are fp16 anywhere and not scaled are an assumption") {
  const std::string text =
      "fp16 gradients are neither scaled nor checked for overflow: no step is skipped";
  CHECK(scenario_says({"training.loss_scaling=none"}, text));
  CHECK(scenario_says(
      {"training.precision=bf16", "training.grad_reduce_dtype=fp16", "training.loss_scaling=none"},
      text));
  CHECK_FALSE(scenario_says({"training.precision=bf16"}, text));
  CHECK_FALSE(scenario_says({}, text));
}

TEST_CASE("a result says what context parallelism rests on, each form for itself") {
  const auto of_form = [](const char* form) {
    return compile(load_scenario("scenarios/verify-llama-cp2-ring.json",
                                 {std::string("parallelism.cp_attention=") + form}))
        .assumptions();
  };
  const auto about = [](const std::vector<Assumption>& assumptions, const std::string& words) {
    return std::any_of(assumptions.begin(), assumptions.end(), [&](const Assumption& assumption) {
      return assumption.text.find(words) != std::string::npos;
    });
  };
  for (const char* form : {"ring", "all_gather", "ulysses"}) {
    const bool is_ring = form == std::string("ring");
    CHECK(about(of_form(form), "two runs of every sample"));
    CHECK(about(of_form(form), "A block of keys and values") == is_ring);
    CHECK(about(of_form(form), "Attention waits") != is_ring);
  }
  CHECK_FALSE(about(compile(load_scenario("scenarios/verify-llama-ddp.json")).assumptions(),
                    "two runs of every sample"));
}

TEST_CASE("a result lists what its software makes of operations, and no other's") {
  const auto planned = [](const std::string& software) {
    return compile(
               load_scenario("scenarios/gpt3-175b-1024xa100.json", {"system.software=" + software}))
        .assumptions();
  };
  const auto lines_with = [](const std::vector<Assumption>& assumptions, const std::string& start) {
    return std::count_if(assumptions.begin(), assumptions.end(), [&](const Assumption& assumption) {
      CHECK_FALSE(assumption.source.empty());
      return assumption.text.rfind(start, 0) == 0;
    });
  };
  for (const Software& software : all_software()) {
    INFO(software.name);
    const std::vector<Assumption> assumptions = planned(software.name);
    const auto changed = std::count_if(software.uses.begin(), software.uses.end(),
                                       [](const KernelUse& use) { return use != kOneKernel; });
    CHECK(changed > 0);
    // And lines of attention, of what is kept twice, and of gradients that are apart.
    // A fused attention has its library and its rate.
    const int attention = software.stores_scores() ? 1 : 2;
    CHECK(lines_with(assumptions, std::string("system.software ") + software.name) ==
          changed + 3 + attention);
    CHECK(says(assumptions,
               fmt::format("system.host_us_per_kernel = {}", software.host_us_per_kernel.value)));
    CHECK(says(assumptions,
               fmt::format("system.host_us_per_call = {}", software.host_us_per_call.value)));
  }
  CHECK(lines_with(planned("none"), "system.software ") == 0);
  CHECK(lines_with(planned("none"), "system.host_us") == 0);
}

TEST_CASE("a host that waits for kernels takes longer, and says so") {
  const auto planned = [](const std::string& waits) {
    return run_scenario(
               load_scenario("scenarios/quickstart.json", {"system.host_us_per_kernel=20",
                                                           "system.cuda_launch_blocking=" + waits}),
               {})
        .result;
  };
  const Result runs_ahead = planned("false");
  const Result waiting = planned("true");
  CHECK(*waiting.number("time.host_s") > 2 * *runs_ahead.number("time.host_s"));
  const std::string line =
      "The host waits for every kernel and for what it has posted when that is waited for; posting "
      "itself does not wait";
  CHECK(says(waiting.assumptions, line));
  CHECK_FALSE(says(runs_ahead.assumptions, line));
}

// Prices of shapes rest on constants; a result that used them names each with its source.
TEST_CASE("a result lists the constants of kernels that it used, and no others") {
  const auto planned = [](const std::string& model) {
    return run_scenario(load_scenario("scenarios/gpt2-xl-zero2-32xa100.json",
                                      {"system.kernel_model=" + model}))
        .result;
  };
  const auto source_of = [](const Result& result, const std::string& text) {
    for (const Assumption& assumption : result.assumptions) {
      if (assumption.text == text) return assumption.source;
    }
    return std::string();
  };
  const Result shapes = planned("shapes");
  const Result roofline = planned("roofline");
  const KernelConstants& used = *find_kernel_constants("a100-sxm");
  for (const NamedConstant& constant : constants_of(used)) {
    const std::string text = fmt::format("system.device.kernels a100-sxm: {} = {}", constant.name,
                                         constant.number.value);
    INFO(text);
    const bool is_used = constant.library.value_or(AttentionLibrary::flash2) ==
                         AttentionLibrary::flash2;  // An A100 has rows of no other.
    CHECK(source_of(shapes, text) == (is_used ? constant.number.source : ""));
    CHECK(source_of(roofline, text).empty());
  }
  CHECK(source_of(shapes, "system.device.matmul_efficiency").empty());
  CHECK_FALSE(source_of(roofline, "system.device.matmul_efficiency").empty());
  CHECK_FALSE(source_of(shapes, "system.device.memory_efficiency").empty());
  CHECK(*shapes.number("step_time_s") > *roofline.number("step_time_s"));
}

TEST_CASE("a constant that a scenario replaces is listed with the scenario's source, and acts") {
  const auto planned = [](const std::vector<std::string>& flags) {
    return run_scenario(load_scenario("scenarios/gpt2-xl-zero2-32xa100.json", flags)).result;
  };
  const Result own = planned({R"(system.device.kernel_constants=[{"name": "matmul_rate",
      "value": 0.25, "source": "our GPUs, in June"}])"});
  CHECK(std::ranges::count_if(own.assumptions, [](const Assumption& assumption) {
          return assumption.text == "system.device.kernels a100-sxm: matmul_rate = 0.25" &&
                 assumption.source == "system.device.kernel_constants: our GPUs, in June";
        }) == 1);
  CHECK(*own.number("step_time_s") > 1.5 * *planned({}).number("step_time_s"));
}

}  // namespace shardsim::test
