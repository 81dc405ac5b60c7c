#include <cmath>

#include <catch2/catch.hpp>

#include "tests/detail/detail_fixture.hpp"

namespace shardsim::test {

TEST_CASE("axes sum to the result's exposed and hidden communication, to the picosecond") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    std::int64_t exposed = 0;
    std::int64_t hidden = 0;
    for (const AxisComm& axis : run.detail.axes) {
      INFO(axis.axis);
      exposed += picoseconds(axis.exposed_s);
      hidden += picoseconds(axis.hidden_s);
      CHECK(picoseconds(axis.exposed_s) >= 0);
      CHECK(picoseconds(axis.hidden_s) >= 0);
      if (axis.axis == "other") continue;
      const double bytes = run.metric("comm.bytes_sent.by_axis." + axis.axis);
      CHECK(std::fabs(static_cast<double>(axis.bytes_sent) - bytes) <= 0.5);
    }
    CHECK(exposed == picoseconds(run.metric("time.exposed_comm_s")));
    CHECK(hidden == picoseconds(run.metric("time.hidden_comm_s")));
  }
}

TEST_CASE("every axis that sends is there, and no other") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    for (const char* name : {"dp", "tp", "cp", "ep", "pp"}) {
      INFO(name);
      bool is_there = false;
      for (const AxisComm& axis : run.detail.axes) is_there |= axis.axis == name;
      if (run.metric(std::string("comm.bytes_sent.by_axis.") + name) > 0) CHECK(is_there);
    }
  }
}

TEST_CASE("blocking tensor parallelism is exposed whole, and only under its own name") {
  const DetailedRun run = detailed("scenarios/verify-gpt-tp4.json");
  REQUIRE(run.detail.axes.size() == 1);
  CHECK(run.detail.axes.front().axis == "tp");
  CHECK(run.detail.axes.front().exposed_s == run.metric("time.exposed_comm_s"));
  CHECK(run.detail.axes.front().exposed_s > 0);
}

}  // namespace shardsim::test
