#include "sim/app/band/band_of_run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/app/band/error_band.hpp"
#include "sim/app/band/measured_errors.hpp"
#include "sim/app/run.hpp"

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {
namespace {

Scenario plan_with(const std::vector<std::string>& overrides) {
  return load_scenario("scenarios/quickstart.json", overrides);
}

std::string reason(const std::vector<std::string>& overrides) {
  return why_no_band(plan_with(overrides));
}

}  // namespace

TEST_CASE("a plan has the widened band of the nearest rows about its time and device memory") {
  const Scenario scenario = plan_with({"system.software=megatron-core-2023"});
  const Result result = run_scenario(scenario).result;
  CHECK(result.no_error_band.empty());
  REQUIRE(result.error_bands.size() == 2);
  const auto check = [&](const MetricBand& band, const char* metric, const char* quantity) {
    CHECK(band.metric == metric);
    const MeasuredRows rows = comparable_rows(built_in_errors(), quantity, "megatron-core-2023");
    const ErrorBand wanted =
        widened(*nearest_band(rows, {"h100-sxm", "megatron-core-2023", 64}), widening_of(rows));
    CHECK(band.low == *result.number(metric) * wanted.low);
    CHECK(band.high == *result.number(metric) * wanted.high);
    CHECK(band.low < band.high);
    CHECK(band.runs == static_cast<std::int64_t>(wanted.rows));
    CHECK(band.tables == static_cast<std::int64_t>(wanted.tables));
    CHECK(band.runs_on_device == static_cast<std::int64_t>(wanted.rows_on_device));
    CHECK(band.runs_with_software == static_cast<std::int64_t>(wanted.rows_with_software));
    CHECK(band.least_ranks == wanted.least_ranks);
    CHECK(band.most_ranks == wanted.most_ranks);
    CHECK(band.device == "h100-sxm");
    CHECK(band.software == "megatron-core-2023");
  };
  check(result.error_bands[0], "step_time_s", "step_time_s");
  check(result.error_bands[1], "memory.device_bytes.max", "peak_memory_bytes");
}

TEST_CASE("without a framework the band is of errors that were made without one") {
  const Result result = run_scenario(plan_with({})).result;
  REQUIRE(result.error_bands.size() == 2);
  const MeasuredRows rows = comparable_rows(built_in_errors(), "step_time_s", "none");
  const ErrorBand wanted =
      widened(*nearest_band(rows, {"h100-sxm", "none", 64}), widening_of(rows));
  CHECK(result.error_bands[0].high == *result.number("step_time_s") * wanted.high);
  CHECK(result.error_bands[0].software == "none");
}

TEST_CASE("what no measured run does has no band, and the result says why") {
  CHECK(reason({}).empty());
  CHECK(reason({"training.precision=fp16"}).empty());
  CHECK(contains(reason({"system.kernel_model=roofline"}), "system.kernel_model roofline"));
  CHECK(contains(reason({"system.network_model=alpha_beta"}), "system.network_model alpha_beta"));
  CHECK(contains(reason({"model.preset=mixtral-8x7b"}), "experts"));
  CHECK(contains(reason({"parallelism.offload_optimizer=true"}), "offloads"));
  CHECK(contains(
      reason({"parallelism.zero_stage=0", "parallelism.dp_replicate=64", "parallelism.dp_shard=1",
              "parallelism.data_parallel=local_sgd", "parallelism.sync_period=4"}),
      "another data parallelism"));
  CHECK(contains(reason({"parallelism.pp=2", "parallelism.zero_stage=1",
                         "parallelism.schedule=zb_h1", "training.num_microbatches=4"}),
                 "parallelism.schedule zb_h1"));
  CHECK(reason({"parallelism.pp=2", "parallelism.zero_stage=1", "training.num_microbatches=4"})
            .empty());
  CHECK(contains(reason({"training.precision=fp32"}), "training.precision fp32"));
  CHECK(contains(why_no_band(load_scenario("scenarios/verify-gpt-zero2.json", {})), "no plan"));
  const Result result = run_scenario(plan_with({"system.kernel_model=roofline"})).result;
  CHECK(result.error_bands.empty());
  CHECK(result.no_error_band == reason({"system.kernel_model=roofline"}));
}

TEST_CASE("the object and the screen have the band, or the reason") {
  const nlohmann::json object =
      nlohmann::json::parse(shardsim({"scenarios/quickstart.json", "--json"}).out);
  CHECK(object.at("error_bands").at(0).at("metric") == "step_time_s");
  CHECK_FALSE(object.contains("no_error_band"));
  const std::string roofline = "system.kernel_model=roofline";
  CHECK(contains(shardsim({"scenarios/quickstart.json", "--set", roofline}).out,
                 "  error band    none: no measured run is predicted with system.kernel_model"));
  const nlohmann::json none = nlohmann::json::parse(
      shardsim({"scenarios/quickstart.json", "--json", "--set", roofline}).out);
  CHECK(none.contains("no_error_band"));
  CHECK_FALSE(none.contains("error_bands"));
}

}  // namespace shardsim::test
