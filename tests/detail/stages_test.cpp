#include <set>

#include <catch2/catch.hpp>

#include "tests/detail/detail_fixture.hpp"

// Stages and operations: what a step consists of.
namespace shardsim::test {

TEST_CASE("of each stage, the parts of its last rank's step add up, and one is the result's") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    const std::vector<StageTime>& stages = run.detail.stages;
    REQUIRE(stages.size() == static_cast<std::size_t>(run.scenario.parallelism.pp));
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      CHECK(stages[stage].stage == static_cast<std::int64_t>(stage));
    }
    const StageTime& last = run.last_stage_to_end();
    CHECK(picoseconds(last.compute_s) + picoseconds(last.exposed_comm_s) +
              picoseconds(last.bubble_s) + picoseconds(last.host_s) ==
          picoseconds(run.metric("step_time_s")));
  }
}

TEST_CASE("operations by name take what the rank computed, each as long as it says") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    std::int64_t sum = 0;
    std::set<std::string> names;
    for (const RooflinePoint& point : run.detail.roofline.points) {
      CHECK(point.calls > 0);
      CHECK(names.insert(point.name).second);
      sum += picoseconds(point.time_s);
    }
    const Roofline& roofline = run.detail.roofline;
    const std::int64_t copies = picoseconds(roofline.host_copies_s);
    const std::int64_t slowed = picoseconds(roofline.beside_comm_s);
    CHECK(sum + copies + slowed == picoseconds(run.metric("time.compute_s")));
    CHECK((copies > 0) == run.scenario.parallelism.offloads());
    if (slowed > 0) CHECK(run.scenario.system.overlap_slows_computing);
  }
}

TEST_CASE("operations do the flops that the result's utilization counts") {
  // One rank's are all ranks' mean where all do the same.
  const DetailedRun run = detailed("scenarios/quickstart.json");
  double flops = 0;
  for (const RooflinePoint& point : run.detail.roofline.points) flops += point.flops;
  const double peak = run.detail.roofline.peak_flops_per_s;
  CHECK(flops / run.metric("step_time_s") / peak == Approx(run.metric("hfu")).epsilon(1e-12));
  CHECK(run.detail.roofline.memory_bytes_per_s ==
        run.scenario.system.device.memory_bandwidth_gb_per_s * 1e9);
}

}  // namespace shardsim::test
