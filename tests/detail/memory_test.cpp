#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/run/detail/bounded_series.hpp"

#include "tests/detail/detail_fixture.hpp"

namespace shardsim::test {

TEST_CASE("a curve's peak is the peak of the stage's fullest rank, with its categories") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    const RunDetail& detail = run.detail;
    REQUIRE(detail.memory.size() == detail.stages.size());
    std::int64_t fullest = 0;
    for (std::size_t i = 0; i < detail.memory.size(); ++i) {
      const MemoryCurve& curve = detail.memory[i];
      const StageTime& stage = detail.stages[i];
      INFO("stage " << stage.stage);
      REQUIRE(!curve.points.empty());
      CHECK(curve.points.size() <= kMaxMemoryPoints);
      const auto most = std::max_element(
          curve.points.begin(), curve.points.end(),
          [](const auto& a, const auto& b) { return total_of(a.bytes) < total_of(b.bytes); });
      CHECK(total_of(most->bytes) == stage.peak_bytes);
      CHECK(total_of(stage.at_peak) == stage.peak_bytes);
      fullest = std::max(fullest, stage.peak_bytes);
      CHECK(std::is_sorted(curve.points.begin(), curve.points.end(),
                           [](const auto& a, const auto& b) { return a.time_s < b.time_s; }));
    }
    CHECK(static_cast<double>(fullest) == run.metric("memory.peak_bytes.max"));
  }
}

}  // namespace shardsim::test
