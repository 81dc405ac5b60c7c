#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/run/band/error_band.hpp"
#include "sim/run/band/measured_errors.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {
namespace {

Scenario plan_with(const std::vector<std::string>& overrides) {
  return load_scenario("scenarios/quickstart.json", overrides);
}

std::string reason(const std::vector<std::string>& overrides) {
  return why_no_band(compile(plan_with(overrides)));
}

// 20 measurements of one table, so many times what was predicted.
void add_rows(MeasuredErrors& known, const char* quantity, const char* table, const char* software,
              double ratio) {
  for (int i = 0; i < 20; ++i) {
    known.errors.push_back({quantity, table, {"h100-sxm", software, 8 << (i % 2)}, 1 / ratio - 1});
  }
}

// Two tables give 1 and 4 for times: they have no common centre, and a band of 1 to 4. For memory
// both give 2, and without a framework both give 8.
MeasuredErrors few_errors() {
  MeasuredErrors known;
  add_rows(known, "step_time_s", "a", "megatron-core-2023", 1.0);
  add_rows(known, "step_time_s", "b", "megatron-core-2023", 4.0);
  for (const char* table : {"a", "b"}) {
    add_rows(known, "peak_memory_bytes", table, "megatron-core-2023", 2.0);
    add_rows(known, "step_time_s", table, "none", 8.0);
    add_rows(known, "peak_memory_bytes", table, "none", 16.0);
  }
  const std::string smallest = "dense models on hopper under megatron-core-2023";
  known.held_out = {{"step_time_s", true, smallest, 0.75},
                    {"step_time_s", true, "dense models on hopper", 0.5},
                    {"step_time_s", true, "dense models", 0.25},
                    {"step_time_s", true, "all models", 0.125},
                    {"peak_memory_bytes", true, smallest, 0.625},
                    {"step_time_s", false, "dense models on hopper", 0.375}};
  return known;
}

Result with_bands(const MeasuredErrors& known, const std::vector<std::string>& overrides) {
  Result result;
  result.metrics = {{"step_time_s", 2.0}, {"memory.device_bytes.max", std::int64_t{1000}}};
  add_error_bands(compile(plan_with(overrides)), known, result);
  return result;
}

}  // namespace

TEST_CASE("a plan has the band of its group about its time and device memory") {
  const Result result = with_bands(few_errors(), {"system.software=megatron-core-2023"});
  CHECK(result.no_error_band.empty());
  REQUIRE(result.error_bands.size() == 2);
  const MetricBand& time = result.error_bands[0];
  CHECK(time.metric == "step_time_s");
  CHECK(time.low == 2.0);
  CHECK(time.high == 8.0);
  CHECK(time.centre == 2.0);           // Tables left out are nearer to the model.
  CHECK(time.bias == Approx(-0.375));  // The mean of 0 and 1 / 4 - 1.
  CHECK(time.runs == 40);
  CHECK(time.tables == 2);
  CHECK(time.group == "dense models on hopper under megatron-core-2023");
  CHECK(time.too_few.empty());
  CHECK(time.device == "h100-sxm");
  CHECK(time.runs_on_device == 40);
  CHECK(time.software == "megatron-core-2023");
  CHECK(time.runs_with_software == 40);
  CHECK(time.least_ranks == 8);
  CHECK(time.most_ranks == 16);
  CHECK(time.held_out_share == 0.75);
  const MetricBand& memory = result.error_bands[1];
  CHECK(memory.metric == "memory.device_bytes.max");
  CHECK(memory.centre == Approx(1000.0 * (1.0 + 2.0 / 3.0)));
  CHECK(memory.low == memory.centre);
  CHECK(memory.high == 2000.0);
  CHECK(memory.held_out_share == 0.625);
}

TEST_CASE("without a framework the band is of errors that were made without one") {
  const Result result = with_bands(few_errors(), {"system.software=none"});
  // Nobody said how much such bands hold of memory, so none is told.
  REQUIRE(result.error_bands.size() == 1);
  CHECK(result.error_bands[0].metric == "step_time_s");
  CHECK(result.error_bands[0].low == Approx(2.0 * (1.0 + 7.0 * 2 / 3)));
  CHECK(result.error_bands[0].high == 16.0);
  CHECK(result.error_bands[0].group == "dense models on hopper, predicted without a framework");
  CHECK(result.error_bands[0].software == "none");
  CHECK(result.error_bands[0].held_out_share == 0.375);
  CHECK(with_bands({}, {}).no_error_band == "the program was built without errors");
}

TEST_CASE("a group with too few runs takes the next larger group's band, and says so") {
  const auto of = [](const std::vector<std::string>& overrides) {
    return with_bands(few_errors(), overrides).error_bands.at(0);
  };
  const MetricBand other = of({"system.software=megatron-core-2025"});
  CHECK(other.group == "dense models on hopper");
  CHECK(other.too_few == "under megatron-core-2025");
  CHECK(other.runs_with_software == 0);
  CHECK(other.held_out_share == 0.5);
  const MetricBand newer = of({"system.preset=dgx-b200", "system.software=megatron-core-2023"});
  CHECK(newer.group == "dense models");
  CHECK(newer.too_few == "on blackwell");
  CHECK(newer.held_out_share == 0.25);
  const MetricBand experts =
      of({"model.preset=mixtral-8x7b", "system.software=megatron-core-2023"});
  CHECK(experts.group == "all models");
  CHECK(experts.too_few == "with experts");
  CHECK(experts.held_out_share == 0.125);
}

TEST_CASE("a run's bands are from the built-in errors, and say what such bands held") {
  const Result result = run_scenario(plan_with({"system.software=megatron-core-2023"})).result;
  REQUIRE(result.error_bands.size() == 2);
  for (const MetricBand& band : result.error_bands) {
    INFO(band.metric);
    CHECK(band.low <= band.centre);
    CHECK(band.centre <= band.high);
    CHECK(band.low < band.high);
    CHECK(band.runs >= 20);
    CHECK(band.tables >= 2);
    const char* quantity = band.metric == "step_time_s" ? "step_time_s" : "peak_memory_bytes";
    CHECK(band.held_out_share ==
          held_out_share(built_in_measured_errors(), quantity, "megatron-core-2023", band.group));
    CHECK(band.held_out_share > 0.5);
  }
}

TEST_CASE("what no measured run does has no band, and the result says why") {
  CHECK(reason({}).empty());
  CHECK(reason({"training.precision=fp16"}).empty());
  CHECK(contains(reason({"system.kernel_model=roofline"}), "system.kernel_model roofline"));
  CHECK(contains(reason({"system.network_model=alpha_beta"}), "system.network_model alpha_beta"));
  CHECK(reason({"model.preset=mixtral-8x7b"}).empty());
  CHECK(reason({"parallelism.cp=2", "training.num_microbatches=4"}).empty());
  CHECK(contains(reason({"parallelism.cp=2", "training.num_microbatches=4",
                         "parallelism.cp_attention=ulysses"}),
                 "parallelism.cp_attention ulysses"));
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
  CHECK(reason({"training.precision=fp8", "training.fp8_recipe=delayed"}).empty());
  CHECK(reason({"training.precision=fp8", "training.fp8_recipe=tensorwise"}).empty());
  CHECK(reason({"training.precision=fp8", "training.fp8_recipe=blockwise"}) ==
        "no measured run has training.fp8_recipe blockwise");
  CHECK(
      contains(why_no_band(compile(load_scenario("scenarios/verify-gpt-zero2.json"))), "no plan"));
  const Result result = run_scenario(plan_with({"system.kernel_model=roofline"})).result;
  CHECK(result.error_bands.empty());
  CHECK(result.no_error_band == reason({"system.kernel_model=roofline"}));
}

TEST_CASE("what no measured run sets has no band, and its default has one") {
  const std::string software = "system.software=megatron-lm-2021";  // 46 us and 40 us.
  CHECK(reason({software}).empty());
  const auto none_for = [&](const std::string& field, const std::string& value,
                            const std::string& by_default) {
    INFO(field);
    CHECK(contains(reason({software, field + "=" + value}), field));
    CHECK(reason({software, field + "=" + by_default}).empty());
  };
  none_for("system.device.kernel_constants",
           R"([{"name": "matmul_rate", "value": 0.5, "source": "our GPUs"}])", "[]");
  none_for("system.nccl.algorithms", "ring", "");
  none_for("system.nccl.protocols", "simple", "");
  for (const char* tier : {"intra_node", "inter_node"}) {
    const std::string section = std::string("system.nccl.") + tier;
    none_for(section + ".bandwidth_factor", "0.9", "1");
    none_for(section + ".added_latency_us", "2", "0");
  }
  none_for("system.oversubscription", "2", "1");
  none_for("system.host_us_per_kernel", "5", "46");
  none_for("system.host_us_per_call", "5", "40");
  none_for("system.cuda_launch_blocking", "true", "false");
  none_for("system.overlap_slows_computing", "false", "true");
  none_for("system.device.power_limit_w", "300", "0");
  none_for("system.cuda_graphs", "attn", "none");
  const std::string fused = "system.software=megatron-core-2025";
  CHECK(contains(reason({fused, "system.attention_library=flash3"}), "system.attention_library"));
  CHECK(reason({fused, "system.attention_library=flash2"}).empty());  // As recipes have it.
  // Without a framework nothing is spent on the host.
  CHECK(contains(reason({"system.host_us_per_kernel=46"}), "system.host_us_per_kernel"));
  CHECK(contains(reason({"system.host_us_per_call=40"}), "system.host_us_per_call"));
  CHECK(reason({"system.software=none", "system.host_us_per_kernel=0", "system.host_us_per_call=0"})
            .empty());
}

TEST_CASE("the object and the screen have the band, or the reason") {
  const nlohmann::json object =
      nlohmann::json::parse(shardsim({"scenarios/quickstart.json", "--json"}).out);
  CHECK(object.at("error_bands").at(0).at("metric") == "step_time_s");
  CHECK(object.at("error_bands").at(0).at("held_out_share") > 0.5);
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
