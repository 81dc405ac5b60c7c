#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/property/check_property.hpp"

// K11: activations in host memory from forward to backward. Nothing that is trained changes, the
// device's peak falls by what leaves, the host's grows by it, and a link that is fast enough costs
// no time.
namespace shardsim::test {
namespace {

using OffloadSettings = std::vector<std::string>;

constexpr const char* kOffloadStages = "scenarios/verify-llama-pp2-offload-layers.json";
constexpr const char* kOffloadExperts = "scenarios/verify-llama-ep2-combined-pp2.json";
constexpr const char* kOffloadLow = "scenarios/verify-llama-fp8-tp2-dp2-sp.json";
constexpr const char* kOffloadLowBlocks = "scenarios/verify-llama-mxfp8-ep4-capacity.json";
constexpr const char* kOffloadLowSlices = "scenarios/verify-llama-tensorwise-ep2-etp2-tp2-sp.json";
const OffloadSettings kOffloads = {"parallelism.offload_layers=2",
                                   "parallelism.offload_min_elements=1",
                                   "system.device.host_bandwidth_gb_per_s=20"};
const OffloadSettings kStays = {"parallelism.offload_layers=0"};

OffloadSettings joined_settings(OffloadSettings a, const OffloadSettings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Result offload_result(const char* scenario, const OffloadSettings& settings) {
  return run_scenario(load_scenario(scenario, settings)).result;
}

struct OffloadCase {
  const char* scenario;
  OffloadSettings settings;
};
const std::vector<OffloadCase> kOffloadCases = {
    {kOffloadStages, {}},
    {kOffloadStages, {"parallelism.schedule=gpipe", "parallelism.zero_stage=2"}},
    {kOffloadStages, {"parallelism.schedule=zb_h1"}},
    {kOffloadStages, {"parallelism.schedule=interleaved_1f1b", "parallelism.vpp=3"}},
    {kOffloadStages, {"training.recompute=full"}},
    {kOffloadStages, {"training.recompute=selective", "training.hidden_dropout=0.2"}},
    {kOffloadStages, {"parallelism.pp=1", "parallelism.schedule=none", "parallelism.zero_stage=3"}},
    {kOffloadStages, {"parallelism.offload_modules=core_attn,mlp_norm"}},
    {kOffloadExperts, {}},
    {kOffloadExperts,
     {"parallelism.schedule=1f1b", "parallelism.vpp=1",
      "parallelism.offload_modules=expert_fc1,moe_act"}},
    {kOffloadLow, {}},
    {kOffloadLowBlocks, {"parallelism.offload_modules=expert_fc1"}},
    {kOffloadLowSlices, {}},
};

// One rank and one microbatch of six layers, without data.
const OffloadSettings kOffloadRank = {
    "execution.tensors=meta",    "parallelism.pp=1",        "parallelism.tp=1",
    "parallelism.schedule=none", "system.gpus_per_node=1",  "training.micro_batch_size=8",
    "execution.steps=1",         "training.precision=bf16", "training.global_batch_size=8",
    "model.hidden_size=32"};
constexpr std::int64_t kOffloadTokens = 8 * 10;

std::int64_t offload_bytes(const Result& result, const char* metric) {
  return static_cast<std::int64_t>(result.number(metric).value());
}

Result offload_on_one_rank(const OffloadSettings& more) {
  return offload_result(kOffloadStages, joined_settings(kOffloadRank, more));
}

}  // namespace

TEST_CASE("K11: what is trained does not know where activations wait") {
  for (const OffloadCase& each : kOffloadCases) {
    CAPTURE(each.scenario, each.settings);
    const OffloadSettings goes = joined_settings(kOffloads, each.settings);
    const Result away = offload_result(each.scenario, goes);
    const Result here = offload_result(each.scenario, joined_settings(goes, kStays));
    REQUIRE(away.exit_code == 0);
    CHECK(offload_bytes(away, "memory.host_bytes.max") > 0);
    for (const char* what : {"grads", "params", "optimizer_state", "loss"}) {
      const std::string name = std::string("oracle.max_rel_error.") + what;
      CHECK(*away.find(name) == *here.find(name));
    }
  }
}

// Backward asks a quantized tensor whose rows it has: how many each expert.
TEST_CASE("K11: rows of experts that wait on the host cost a plan what they cost a run") {
  for (const char* scenario : {kOffloadLowBlocks, kOffloadLowSlices}) {
    CAPTURE(scenario);
    OffloadSettings settings = joined_settings(
        kOffloads, {"parallelism.offload_modules=expert_fc1", "model.moe_routing=uniform"});
    const Result run = offload_result(scenario, settings);
    settings.emplace_back("execution.tensors=meta");
    const Result plan = offload_result(scenario, settings);
    for (const char* what : {"memory.peak_bytes.max", "comm.bytes_sent.total"}) {
      CHECK(*plan.find(what) == *run.find(what));
    }
  }
}

TEST_CASE("K11: recorded and run, the copies are the same") {
  check_property(8, [] {
    const OffloadCase each = *rc::gen::elementOf(kOffloadCases);
    OffloadSettings settings = joined_settings(kOffloads, each.settings);
    settings.emplace_back("execution.tensors=meta");
    settings.push_back(*rc::gen::element<std::string>("system.device.host_bandwidth_gb_per_s=0.01",
                                                      "system.device.host_bandwidth_gb_per_s=5"));
    const auto run = [&](const char* engine) {
      return offload_result(each.scenario,
                            joined_settings(settings, {std::string("execution.engine=") + engine}));
    };
    const Result ran = run("run");
    const Result replayed = run("replay");
    for (const char* metric : {"trace_hash", "step_time_s", "time.compute_s", "time.bubble_s",
                               "memory.host_bytes.max", "memory.peak_bytes.max"}) {
      RC_ASSERT(*ran.find(metric) == *replayed.find(metric));
    }
  });
}

TEST_CASE("K11: the host holds the inputs of the chosen parts") {
  // By token, in bf16: h = 32, a d = 32, g d = 16; a statistic of a norm and one of each head in
  // fp32.
  const std::vector<std::pair<const char*, std::int64_t>> parts = {
      {"attn_norm", 2 * 32},
      {"qkv_linear", 2 * 32},
      {"core_attn", 2 * (32 + 16 + 16)},
      {"attn_proj", 2 * 32},
      {"mlp_norm", 2 * 32},
      // Both norms' inputs, outputs and statistics; attention's and their statistics; gate, up and
      // what is made of them.
      {"everything", 4 * 2 * 32 + 2 * 4 + 2 * (32 + 16 + 16) + 2 * 32 + 4 * 4 + 3 * 2 * 40}};
  for (const auto& [modules, bytes] : parts) {
    for (const int layers : {1, 4}) {
      CAPTURE(modules, layers);
      const Result result =
          offload_on_one_rank({"parallelism.offload_layers=" + std::to_string(layers),
                               std::string("parallelism.offload_modules=") + modules});
      CHECK(offload_bytes(result, "memory.host_bytes.max") == layers * kOffloadTokens * bytes);
    }
  }
  const Result larger =
      offload_on_one_rank({"parallelism.offload_min_elements=2561"});  // Tokens times 32.
  CHECK(offload_bytes(larger, "memory.host_bytes.max") == 2 * kOffloadTokens * 3 * 2 * 40);
}

TEST_CASE("K11: the device's peak falls by what leaves") {
  const Result here = offload_on_one_rank(kStays);
  for (const int layers : {1, 2, 3, 4}) {
    CAPTURE(layers);
    const Result away =
        offload_on_one_rank({"parallelism.offload_layers=" + std::to_string(layers)});
    CHECK(offload_bytes(here, "memory.peak_bytes.max") -
              offload_bytes(away, "memory.peak_bytes.max") ==
          offload_bytes(away, "memory.host_bytes.max"));
  }
}

TEST_CASE("K11: a fast link costs no time, and a slow one what its bytes take") {
  const Result here = offload_on_one_rank(kStays);
  const double before = here.number("step_time_s").value();
  const Result fast = offload_on_one_rank({"system.device.host_bandwidth_gb_per_s=1000"});
  CHECK(fast.number("step_time_s").value() == before);
  const Result slow = offload_on_one_rank({"system.device.host_bandwidth_gb_per_s=0.01"});
  const double copies =
      2.0 * slow.number("memory.host_bytes.max").value() / (0.01 * 1e9);  // There, and back.
  const double taken = slow.number("step_time_s").value();
  CHECK(taken > copies);
  CHECK(taken < before + copies);
  CHECK(slow.number("time.compute_s").value() == here.number("time.compute_s").value());
}

}  // namespace shardsim::test
