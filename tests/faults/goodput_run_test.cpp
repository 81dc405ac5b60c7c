#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "reports/text_summary.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"
#include "sim/run/run.hpp"
#include "sim/run/whole_training.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/app/folding_fixture.hpp"

// From the scenario to the goodput of a result and the line that people read.
namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

// 16 GPUs on 2 nodes that fail every 3,200 h and 800 h: the job every 1 / (16/3200 + 2/800) h.
const Overrides kFailures = {"faults.gpu_mtbf_hours=3200", "faults.node_mtbf_hours=800",
                             "faults.checkpoint_write_s=48", "faults.detection_s=100",
                             "faults.restart_s=500"};
constexpr double kMtbf = 3600 / (16.0 / 3200 + 2.0 / 800);

Result result_with(Overrides overrides) {
  overrides.insert(overrides.begin(), kFailures.begin(), kFailures.end());
  return planned(small_plan("llama"), overrides, "off");
}

double metric(const Result& result, const char* name) {
  INFO(name);
  REQUIRE(result.number(name).has_value());
  return *result.number(name);
}

}  // namespace

TEST_CASE("rates of GPUs and nodes add up, and Daly's interval is taken") {
  const Result result = result_with({});
  const FailureModel model{.mtbf_s = kMtbf, .checkpoint_s = 48, .restart_s = 600};
  CHECK(metric(result, "goodput.mtbf_s") == Approx(kMtbf).epsilon(1e-12));
  CHECK(metric(result, "goodput.daly_s") == Approx(daly_interval_s(model)).epsilon(1e-12));
  CHECK(metric(result, "goodput.young_s") == Approx(young_interval_s(model)).epsilon(1e-12));
  CHECK(metric(result, "goodput.best_s") == Approx(best_interval_s(model)).epsilon(1e-12));
  CHECK(metric(result, "goodput.checkpoint_interval_s") == metric(result, "goodput.daly_s"));
  CHECK(metric(result, "goodput.checkpoint_write_s") == 48.0);
  const TimeShares shares = time_shares(model, daly_interval_s(model));
  CHECK(metric(result, "goodput.fraction") == Approx(shares.useful).epsilon(1e-12));
  CHECK(metric(result, "goodput.lost_share.checkpoint") ==
        Approx(shares.checkpoint).epsilon(1e-12));
  CHECK(metric(result, "goodput.lost_share.rework") == Approx(shares.rework).epsilon(1e-12));
  CHECK(metric(result, "goodput.lost_share.restart") == Approx(shares.restart).epsilon(1e-12));
  CHECK(metric(result, "goodput.effective_tokens_per_s") ==
        metric(result, "tokens_per_s") * metric(result, "goodput.fraction"));
  CHECK(result.find("goodput.fraction_low") == nullptr);
}

TEST_CASE("an interval that is given is taken, and is not better than the optimum") {
  const Result best = result_with({});
  for (const char* interval : {"600", "20000"}) {
    const Result given = result_with({std::string("faults.checkpoint_interval_s=") + interval});
    CHECK(metric(given, "goodput.checkpoint_interval_s") == std::stod(interval));
    CHECK(metric(given, "goodput.daly_s") == metric(best, "goodput.daly_s"));
    CHECK(metric(given, "goodput.fraction") < metric(best, "goodput.fraction"));
  }
  const std::string exact = fmt::format("{}", metric(best, "goodput.best_s"));
  const Result given = result_with({"faults.checkpoint_interval_s=" + exact});
  CHECK(metric(given, "goodput.fraction") > metric(best, "goodput.fraction"));
}

TEST_CASE("the fewer failures were seen, the wider is the band") {
  double width = 0.0;
  for (const char* seen : {"1000", "100", "10", "2"}) {
    const Result result = result_with({std::string("faults.observed_failures=") + seen});
    const double low = metric(result, "goodput.fraction_low");
    const double high = metric(result, "goodput.fraction_high");
    CHECK(low < metric(result, "goodput.fraction"));
    CHECK(high > metric(result, "goodput.fraction"));
    CHECK(high - low > width);
    width = high - low;
  }
}

TEST_CASE("a checkpoint is weights, master weights and optimizer state, each once") {
  const auto bytes_each = [](const Overrides& overrides) {
    const Experiment experiment =
        compile(load_scenario_text(small_plan("llama"), "test.json", overrides));
    const std::int64_t bytes = checkpoint_bytes(experiment);
    const std::int64_t parameters = all_parameters(experiment.scenario().model);
    CHECK(bytes % parameters == 0);
    return bytes / parameters;
  };
  const std::string bf16 = "training.precision=bf16";
  const std::string peak = "system.device.peak_tflops.bf16=10";
  CHECK(bytes_each({}) == 4 + 4 + 4);  // fp32, Adam.
  CHECK(bytes_each({"training.optimizer=sgd"}) == 4);
  CHECK(bytes_each({"training.optimizer=momentum"}) == 8);
  CHECK(bytes_each({bf16, peak, "training.optimizer=adamw"}) == 2 + 4 + 4 + 4);
  CHECK(bytes_each({bf16, peak, "training.optimizer=sgd"}) == 2 + 4);
  // Muon keeps one tensor of matrices, where Lion keeps as much of the rest.
  const Overrides muon = {bf16, peak, "training.optimizer=muon",
                          "training.muon_scalar_optimizer=lion"};
  CHECK(bytes_each(muon) == 2 + 4 + 4);
  const auto bytes_of = [&](const Overrides& more) {
    Overrides all = {bf16, peak};
    all.insert(all.end(), more.begin(), more.end());
    return checkpoint_bytes(compile(load_scenario_text(small_plan("llama"), "test.json", all)));
  };
  const std::int64_t with_muon = bytes_of({"training.optimizer=muon"});
  CHECK(with_muon > bytes_of({"training.optimizer=momentum"}));
  CHECK(with_muon < bytes_of({"training.optimizer=adamw"}));
  const Experiment experiment = compile(load_scenario_text(
      small_plan("llama"), "test.json",
      {"faults.gpu_mtbf_hours=3200", "faults.checkpoint_gb_per_s=2", "faults.restart_s=1"}));
  CHECK(failure_model_of(experiment).checkpoint_s ==
        static_cast<double>(checkpoint_bytes(experiment)) / 2e9);
}

TEST_CASE("where nothing fails nothing is said of a goodput") {
  const Result calm = planned(small_plan("llama"), {}, "off");
  for (const Metric& each : calm.metrics) CHECK(each.name.rfind("goodput.", 0) != 0);
}

TEST_CASE("expectations may be of the goodput") {
  const Result result =
      result_with({R"(expect=[{"metric": "goodput.fraction", "op": ">=", "value": 0.99}])"});
  CHECK(result.exit_code == 1);
}

TEST_CASE("the shipped example runs, with its goodput in the summary") {
  const Printed printed = shardsim({"scenarios/faults-llama3-70b.json"});
  INFO(printed.out);
  CHECK(printed.exit_code == 0);
  // 256 GPUs at 50,677 h: 198 h.
  CHECK(contains(printed.out, "at one failure per 8.2 days: checkpoints"));
  CHECK(contains(printed.out, "1 straggler, 1 slow link, 1 flapping link"));
}

TEST_CASE("what failures cost is one sentence") {
  Result result;
  const auto line = [&result] {
    const std::string text = to_text(result, {}, {});
    const std::size_t begin = text.find("  goodput");
    return begin == std::string::npos ? text : text.substr(begin, text.find("\n  ", begin) - begin);
  };
  CHECK_FALSE(contains(line(), "goodput"));
  result.metrics = {{"goodput.fraction", 0.921},
                    {"goodput.mtbf_s", 11'135.0},
                    {"goodput.checkpoint_interval_s", 1680.0},
                    {"goodput.daly_s", 1680.0},
                    {"goodput.lost_share.checkpoint", 0.02},
                    {"goodput.lost_share.rework", 0.041},
                    {"goodput.lost_share.restart", 0.018}};
  CHECK(line().rfind("  goodput       92.1 % at one failure per 3.1 h: checkpoints 2.0 %, "
                     "rework 4.1 %, restarts 1.8 %;",
                     0) == 0);
  CHECK(contains(to_text(result, {}, {}), "interval 28 min (Daly)"));
  result.metrics[2].value = 3600.0;
  result.metrics.push_back({"goodput.fraction_low", 0.9});
  result.metrics.push_back({"goodput.fraction_high", 0.94});
  CHECK(contains(line(), "92.1 % (90.0 % to 94.0 %) at one failure"));
  CHECK(contains(to_text(result, {}, {}), "60 min (Daly 28 min)"));
}

}  // namespace shardsim::test
