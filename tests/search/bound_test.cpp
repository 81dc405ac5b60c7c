#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"
#include "sim/search/step_end.hpp"

#include "tests/search/search_fixture.hpp"

namespace shardsim::test {

namespace {

constexpr double kPicoseconds = 1e12;

}  // namespace

// All points of whole spaces: a bound above one simulation could hide an optimum.
TEST_CASE("no simulation is faster or smaller than its bounds") {
  for (const SmallSpace& space : small_spaces()) {
    const Searched& all = simulated_in_full(space);
    REQUIRE(all.outcome.simulated.size() > 50);
    const Experiment base = compile(all.base.scenario);
    BoundTable bounds(base);
    StepEnds ends(all.base, base);
    double least_time = 1.0;
    double least_memory = 1.0;
    double mean_time = 0.0;
    double shared_time = 0.0;  // For layouts that reduce each microbatch's gradients.
    int num_shared = 0;
    double mean_memory = 0.0;
    for (const SimulatedPoint& point : all.outcome.simulated) {
      INFO(space.name << ": " << words_of(point.candidate));
      const Bound quick = bounds.quick(point.candidate);
      const Bound close = bounds.close(point.candidate);
      const double step_ps = point.step_time_s * kPicoseconds;
      CHECK(quick.step_ps <= close.step_ps);
      CHECK(quick.device_bytes <= close.device_bytes);
      CHECK(static_cast<double>(close.step_ps) / kPicoseconds <= point.step_time_s);
      CHECK(close.device_bytes <= point.device_bytes);
      const PipelineStages stages = bounds.stages_of(point.candidate);
      const std::int64_t with_end =
          ends.least_step(point.candidate, stages, bounds.play(point.candidate, stages).message);
      CHECK(static_cast<double>(with_end) / kPicoseconds <= point.step_time_s);
      const double time = static_cast<double>(std::max(close.step_ps, with_end)) / step_ps;
      const double memory =
          static_cast<double>(close.device_bytes) / static_cast<double>(point.device_bytes);
      least_time = std::min(least_time, time);
      least_memory = std::min(least_memory, memory);
      mean_time += time;
      if (point.candidate.pp > 1 && point.candidate.zero_stage >= 2) {
        shared_time += time;
        ++num_shared;
      }
      mean_memory += memory;
    }
    const auto count = static_cast<double>(all.outcome.simulated.size());
    INFO(space.name << ": " << count << " simulated; of the time " << mean_time / count
                    << ", least " << least_time << "; of the memory " << mean_memory / count
                    << ", least " << least_memory << "; of the time of " << num_shared
                    << " that reduce each microbatch's gradients " << shared_time / num_shared);
    // A bound that says nothing would pass the above. Where learned routing is not known, experts
    // count as their products at the device's peak: neither norm, nor tokens, nor small products.
    const bool knows_routing = space.name != "experts";
    CHECK(mean_time / count > (knows_routing ? 0.94 : 0.6));
    CHECK(shared_time / num_shared > (knows_routing ? 0.93 : 0.6));
    CHECK(mean_memory / count > 0.9);
  }
}

// Nothing hides a bound's error where the host costs nothing and layers and reductions are long.
TEST_CASE("bounds hold where communication is as long as what it runs beside") {
  const auto space = [](const char* tied, std::vector<std::string> fixed) {
    SmallSpace made{
        .name = "balanced",
        .model = R"({"family": "llama", "num_layers": 6, "hidden_size": 2048,
                     "ffn_hidden_size": 5632, "num_attention_heads": 16, "num_query_groups": 8,
                     "vocab_size": 32000, "seq_len": 2048, "tied_embeddings": )" +
                 std::string(tied) + "}",
        .gpu = "h100",
        .gpus = 8,
        .batch = 32,
        .overrides = {"system.host_us_per_kernel=0", "system.host_us_per_call=0",
                      "parallelism.bucket_bytes=4000000000", "parallelism.reductions_in_flight=1"},
        .fixed = {"zero_stage=2,3", "pp=1,2", "cp=1", "recompute=none", "micro_batch_size=1,4"}};
    made.fixed.insert(made.fixed.end(), fixed.begin(), fixed.end());
    return made;
  };
  for (const SmallSpace& each : {space("true", {"tp=1", "schedule=none,1f1b,interleaved_1f1b"}),
                                 space("false", {"tp=2,4", "schedule=none,zb_h1,zb_v"})}) {
    const Searched all = searched(each, /*prunes=*/false);
    const Experiment base = compile(all.base.scenario);
    BoundTable bounds(base);
    StepEnds ends(all.base, base);
    double closeness = 0.0;
    for (const SimulatedPoint& point : all.outcome.simulated) {
      INFO(each.fixed.back() << ": " << words_of(point.candidate));
      const PipelineStages stages = bounds.stages_of(point.candidate);
      const std::int64_t with_end =
          ends.least_step(point.candidate, stages, bounds.play(point.candidate, stages).message);
      CHECK(static_cast<double>(with_end) / kPicoseconds <= point.step_time_s);
      closeness += static_cast<double>(with_end) / kPicoseconds / point.step_time_s;
    }
    REQUIRE(all.outcome.simulated.size() >= 10);
    CHECK(closeness / static_cast<double>(all.outcome.simulated.size()) > 0.9);
  }
}

}  // namespace shardsim::test
