#include <map>
#include <utility>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/trace_writers.hpp"

#include "tests/reports/golden_file.hpp"
#include "tests/reports/sample_traces.hpp"

namespace shardsim {
namespace {

using SortedJson = nlohmann::json;

TEST_CASE("the Chrome trace is as approved and is JSON") {
  const std::string text = to_chrome_json(samples::two_ranks());
  require_golden("trace.json", text);
  const SortedJson json = SortedJson::parse(text);
  REQUIRE(json["traceEvents"].size() == 24);
  REQUIRE(SortedJson::parse(to_chrome_json({}))["traceEvents"].empty());
}

TEST_CASE("every begin has its end, on its own thread and not before it") {
  std::map<std::pair<int, int>, int> open;
  std::map<std::pair<int, int>, double> last;
  const SortedJson json = SortedJson::parse(to_chrome_json(samples::two_ranks()));
  for (const SortedJson& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase != "B" && phase != "E") continue;
    const std::pair<int, int> thread(event["pid"], event["tid"]);
    open[thread] += phase == "B" ? 1 : -1;
    REQUIRE(open[thread] >= 0);
    REQUIRE(open[thread] <= 1);
    REQUIRE(event["ts"].get<double>() >= last[thread]);
    last[thread] = event["ts"];
  }
  REQUIRE(open.size() == 4);
  for (const auto& [thread, count] : open) REQUIRE(count == 0);
}

TEST_CASE("names and labels with quotes, backslashes and escapes stay JSON") {
  RankTrace rank{3, "a \"b\" \\ \x1b \xff", {}, {}};
  rank.tracks = {{"dp", {{"send", Time(), Time::from_picoseconds(1000), 1, "l\"\n\\", 0}}}};
  const SortedJson json = SortedJson::parse(to_chrome_json({rank}));
  REQUIRE(json["traceEvents"][0]["args"]["name"] == "a \"b\" \\ \\x1b \\xff");
  REQUIRE(json["traceEvents"][2]["args"]["label"] == "l\"\\n\\");
  REQUIRE(json["traceEvents"][2]["args"]["operation"] == 0);
}

}  // namespace
}  // namespace shardsim
