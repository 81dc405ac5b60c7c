#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "tests/detail/detail_fixture.hpp"

// The data in a report of a large plan stays small enough for a page.
namespace shardsim::test {

TEST_CASE("1,024 ranks with hundreds of microbatches make a page of bounded size") {
  const DetailedRun run = detailed("scenarios/gpt3-175b-1024xa100.json", {"execution.fold=auto"});
  const RunDetail& detail = run.detail;
  std::size_t bars = 0;
  for (const GanttRow& row : detail.schedule.rows) bars += row.bars.size();
  CHECK(bars <= kMaxGanttBars);
  CHECK(bars > 1000);
  for (const MemoryCurve& curve : detail.memory) CHECK(curve.points.size() <= kMaxMemoryPoints);
  CHECK(detail.traffic.cells == kMaxTrafficCells);
  CHECK(detail.traffic.ranks_per_cell == 8);
  const std::int64_t sent =
      std::accumulate(detail.traffic.bytes.begin(), detail.traffic.bytes.end(), std::int64_t{0});
  CHECK(static_cast<double>(sent) == run.metric("comm.bytes_sent.total"));
  const auto says = [&](const char* words) {
    return std::any_of(detail.notes.begin(), detail.notes.end(), [&](const std::string& note) {
      return note.find(words) != std::string::npos;
    });
  };
  CHECK(says("8 x 8 ranks are one cell"));
  CHECK(says("drawn coarsely"));
  CHECK(says("thinned"));
}

}  // namespace shardsim::test
