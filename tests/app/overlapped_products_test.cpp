#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// K12 in whole programs: products of tensor-parallel regions under the traffic of their tokens, in
// 64, 16 and 8 bits, with gathers and without.
namespace shardsim::test {
namespace {

using OverlapSettings = std::vector<std::string>;

struct OverlapCase {
  const char* scenario;
  OverlapSettings settings;
};
const std::vector<OverlapCase> kOverlapCases = {
    {"scenarios/verify-llama-tp4-dp2-overlap.json", {}},
    {"scenarios/verify-llama-tp4-dp2-overlap.json", {"parallelism.zero_stage=3"}},
    {"scenarios/verify-llama-tp4-dp2-overlap.json", {"training.recompute=full"}},
    {"scenarios/verify-llama-fp8-tp2-dp2-sp.json", {}},
    {"scenarios/verify-llama-fp8-tp2-dp2-sp.json",
     {"training.fp8_recipe=mxfp8", "system.device.architecture=blackwell", "model.hidden_size=64",
      "model.num_query_groups=4", "model.seq_len=64", "execution.steps=1"}},
};
// Blocks of 128 need tensors that are too large to train with numbers here.
const OverlapCase kOverlapBlocks = {
    "scenarios/verify-llama-fp8-tp2-dp2-sp.json",
    {"training.fp8_recipe=blockwise", "model.hidden_size=256", "model.ffn_hidden_size=256",
     "model.num_query_groups=4", "model.seq_len=256"}};

Result overlap_result(const OverlapCase& each, OverlapSettings more) {
  more.insert(more.begin(), each.settings.begin(), each.settings.end());
  return run_scenario(load_scenario(each.scenario, more)).result;
}

}  // namespace

TEST_CASE("K12: programs whose products hide traffic train what one device trains") {
  for (const OverlapCase& each : kOverlapCases) {
    CAPTURE(each.scenario, each.settings);
    const Result hides = overlap_result(each, {"parallelism.overlap_tensor_parallel=true"});
    const Result shows = overlap_result(
        each, {"parallelism.overlap_tensor_parallel=false", "execution.tensors=meta"});
    CHECK(hides.exit_code == 0);
    for (const char* name : {"comm.bytes_sent.by_axis.dp", "comm.bytes_sent.by_axis.tp"}) {
      CAPTURE(name);
      CHECK(*hides.find(name) == *shows.find(name));
    }
    CHECK(*hides.find("trace_hash") != *shows.find("trace_hash"));
  }
}

TEST_CASE("K12: recorded and run, rings of tokens are the same") {
  std::vector<OverlapCase> cases = kOverlapCases;
  cases.push_back(kOverlapBlocks);
  for (const OverlapCase& each : cases) {
    const auto run = [&](const char* engine) {
      return overlap_result(each,
                            {"parallelism.overlap_tensor_parallel=true", "execution.tensors=meta",
                             std::string("execution.engine=") + engine});
    };
    CAPTURE(each.scenario, each.settings);
    const Result ran = run("run");
    const Result replayed = run("replay");
    for (const char* metric : {"trace_hash", "step_time_s", "memory.peak_bytes.max"}) {
      CAPTURE(metric);
      CHECK(*ran.find(metric) == *replayed.find(metric));
    }
  }
}

}  // namespace shardsim::test
