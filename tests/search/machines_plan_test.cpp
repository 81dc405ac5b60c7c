#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/presets.hpp"
#include "sim/search/plan_search.hpp"
#include "sim/search/search_report.hpp"

// Every machine trains a dense model and one with experts.
namespace shardsim::test {
namespace {

SearchReport planned(const std::string& model, const std::string& machine, std::int64_t gpus,
                     std::vector<std::string> more) {
  SearchRequest request;
  request.model = model;
  request.gpu = machine;
  request.num_gpus = gpus;
  request.fixed = {"pp=1",           "cp=1",           "zero_stage=3", "micro_batch_size=1",
                   "recompute=full", "dp_replicate=1", "etp=1"};
  request.fixed.insert(request.fixed.end(), more.begin(), more.end());
  const SearchBase base = prepare_search(request);
  return report_of(base, request, search(base, request, {}));
}

bool has_layout_that_fits(const SearchReport& report) {
  return !report.ranked.empty() &&
         report.ranked.front().device_bytes <= report.memory_capacity_bytes;
}

}  // namespace

TEST_CASE("each machine has a layout that fits llama3-70b, and one of qwen3-30b-a3b") {
  for (const std::string& machine : builtin_preset_names("systems")) {
    INFO(machine);
    const std::int64_t gpus = machine == "tpu-v6e" ? 256 : 64;
    CHECK(has_layout_that_fits(planned("llama3-70b", machine, gpus, {"tp=8", "ep=1"})));
    CHECK(has_layout_that_fits(planned("qwen3-30b-a3b", machine, gpus, {"tp=1", "ep=8"})));
  }
}

TEST_CASE("a GPU's name finds its machine, whoever sells it") {
  const std::vector<std::string> systems = builtin_preset_names("systems");
  CHECK(system_of_gpu("H100", systems) == "dgx-h100");
  CHECK(system_of_gpu("b300", systems) == "dgx-b300");
  CHECK(system_of_gpu("h20", systems) == "hgx-h20");
  CHECK(system_of_gpu("GB200", systems) == "gb200-nvl72");
  CHECK(system_of_gpu("mi300x", systems) == "mi300x");
  CHECK(system_of_gpu("h1000", systems) == std::nullopt);
}

// All layers of Mixtral have experts, so tp need not divide the width of an MLP that none has.
TEST_CASE("a plan of experts has degrees of tensor parallelism that racks bring") {
  SearchRequest request;
  request.model = "mixtral-8x22b";
  request.gpu = "gb200";
  request.num_gpus = 288;
  request.global_batch_size = 288;
  request.fixed = {"tp=24"};
  const SearchBase base = prepare_search(request);
  SearchHooks hooks;
  std::size_t simulated = 0;
  hooks.on_progress = [&](const SearchProgress& progress) { simulated = progress.simulated; };
  hooks.stop = [&] { return simulated > 0 ? SearchStop::interrupt : SearchStop::none; };
  CHECK(!search(base, request, hooks).simulated.empty());
}

}  // namespace shardsim::test
