#include "reports/json_writer.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <rapidcheck/catch.h>

#include "sim/kernel/error.hpp"

#include "tests/reports/sample_results.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

Result minimal() {
  Result result;
  result.scenario_json = "{}";
  return result;
}

TEST_CASE("the JSON of a plan reads back field by field") {
  const Result result = samples::plan().result;
  const Json json = Json::parse(to_json(result));
  REQUIRE(keys_of(json) == std::vector<std::string>{"schema_version", "scenario", "metrics",
                                                    "error_bands", "checks", "expectations",
                                                    "assumptions", "warnings"});
  REQUIRE(json["schema_version"] == 1);
  REQUIRE(json["scenario"] == Json::parse(result.scenario_json));
  REQUIRE(json["metrics"].size() == result.metrics.size());
  REQUIRE(json["metrics"]["step_time_s"] == 2.5);
  REQUIRE(json["metrics"]["memory.peak_bytes.max"].get<std::int64_t>() == 48318382080);
  REQUIRE(json["metrics"]["memory.peak_bytes.max"].is_number_integer());
  REQUIRE(json["metrics"]["trace_hash"] == "0f1e2d3c4b5a6978");
  const Json& band = json["error_bands"][0];
  REQUIRE(band == Json{{"metric", "step_time_s"},
                       {"low", 2.25},
                       {"centre", 3.0},
                       {"high", 3.75},
                       {"bias", -0.05},
                       {"runs", 54},
                       {"tables", 3},
                       {"group", "dense models on hopper"},
                       {"too_few", "under torchtitan-2024"},
                       {"device", "h100-sxm"},
                       {"runs_on_device", 51},
                       {"software", "torchtitan-2024"},
                       {"runs_with_software", 3},
                       {"least_ranks", 8},
                       {"most_ranks", 2048},
                       {"held_out_share", 0.8125}});
  REQUIRE(json["checks"][0]["name"] == "conservation");
  REQUIRE(json["checks"][0]["passed"] == true);
  REQUIRE(json["checks"][0]["detail"] == "bytes sent equal bytes received on every rank");
  REQUIRE(json["expectations"][1]["metric"] == "mfu");
  REQUIRE(json["expectations"][1]["op"] == ">=");
  REQUIRE(json["expectations"][1]["expected"] == 0.38);
  REQUIRE(json["expectations"][1]["actual"] == 0.3865);
  REQUIRE(json["expectations"][1]["passed"] == true);
  REQUIRE(json["assumptions"][0]["text"] == "peak of bf16 is 989.4 TFLOP/s");
  REQUIRE(json["assumptions"][0]["source"] == "NVIDIA H100 datasheet");
  REQUIRE(json["warnings"].is_array());
  REQUIRE(json["warnings"].empty());
}

TEST_CASE("why there is no error band is written in the place of bands") {
  const Json json = Json::parse(to_json(samples::infeasible().result));
  REQUIRE(json["no_error_band"] == "only one table has measured runs with experts");
  REQUIRE_FALSE(json.contains("error_bands"));
}

TEST_CASE("a diagnosis is written with every field, and only on failure") {
  const Json json = Json::parse(to_json(samples::deadlock().result));
  const Json& diagnosis = json["diagnosis"];
  REQUIRE(keys_of(diagnosis) == std::vector<std::string>{"code", "summary", "group", "members",
                                                         "sequence", "time_ps", "sides", "cycle",
                                                         "last_matched", "hint"});
  REQUIRE(diagnosis["code"] == "DEADLOCK");
  REQUIRE(diagnosis["summary"] == "2 ranks wait for each other");
  REQUIRE(diagnosis["group"] == "pp#0");
  REQUIRE(diagnosis["members"] == Json::array({0, 1}));
  REQUIRE(diagnosis["sequence"] == 7);
  REQUIRE(diagnosis["time_ps"] == 1'900'000'000);
  REQUIRE(diagnosis["sides"].size() == 2);
  const Json& side = diagnosis["sides"][1];
  REQUIRE(keys_of(side) == std::vector<std::string>{"ranks", "action", "file", "line", "function"});
  REQUIRE(side["ranks"] == Json::array({1}));
  REQUIRE(side["action"] == "send to 0, fp32 x 1024 \"backward 0\"");
  REQUIRE(side["file"] == "strategies/pipeline/run.cpp");
  REQUIRE(side["line"] == 57);
  REQUIRE(side["function"] == "send_backward");
  REQUIRE(diagnosis["cycle"].size() == 2);
  REQUIRE(diagnosis["last_matched"] == "recv fp32 x 1024 \"forward 1\"");
  REQUIRE(diagnosis["hint"] == "post both sends in one batch");
  REQUIRE_FALSE(Json::parse(to_json(samples::verified().result)).contains("diagnosis"));
}

TEST_CASE("metrics stand in the promised order however they were collected") {
  Result result = samples::verified().result;
  result.metrics.insert(result.metrics.begin(), {"zz.extra", 1.0});
  const std::string text = to_json(result);
  std::reverse(result.metrics.begin() + 1, result.metrics.end());
  REQUIRE(to_json(result) == text);
  const std::vector<std::string> keys = keys_of(Json::parse(text)["metrics"]);
  REQUIRE(keys.front() == "step_time_s");
  REQUIRE(keys.back() == "zz.extra");
}

TEST_CASE("equal results give equal bytes") {
  REQUIRE(to_json(samples::failed_verify().result) == to_json(samples::failed_verify().result));
}

TEST_CASE("numbers that JSON cannot hold become null") {
  Result result = minimal();
  result.metrics = {{"mfu", std::numeric_limits<double>::quiet_NaN()},
                    {"hfu", std::numeric_limits<double>::infinity()}};
  result.expectations = {{"mfu", "<=", 1.0, -std::numeric_limits<double>::infinity(), false}};
  const Json json = Json::parse(to_json(result));
  REQUIRE(json["metrics"]["mfu"].is_null());
  REQUIRE(json["metrics"]["hfu"].is_null());
  REQUIRE(json["expectations"][0]["actual"].is_null());
}

TEST_CASE("every finite double reads back to the same bits") {
  rc::prop("to_json then parse is the identity on doubles", [](std::uint64_t bits) {
    const double value = std::bit_cast<double>(bits);
    RC_PRE(value == value && value - value == 0);
    Result result = minimal();
    result.metrics = {{"mfu", value}};
    const double read = Json::parse(to_json(result))["metrics"]["mfu"].get<double>();
    RC_ASSERT(std::bit_cast<std::uint64_t>(read) == bits);
  });
}

TEST_CASE("whole numbers keep all their 64 bits") {
  Result result = minimal();
  result.metrics = {{"comm.calls.total", std::numeric_limits<std::int64_t>::max()}};
  REQUIRE(to_json(result).find(": 9223372036854775807\n") != std::string::npos);
}

TEST_CASE("the JSON is printable ASCII whatever the names contain") {
  Result result = minimal();
  const std::string name =
      "\x1b]0;owned\x07\x7f\n\t\"\\ \xc2\x9b"
      "31m caf\xc3\xa9";
  result.checks = {{name, false, "not UTF-8: \xff"}};
  result.warnings = {name};
  const std::string text = to_json(result);
  REQUIRE(std::all_of(text.begin(), text.end(),
                      [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  const Json json = Json::parse(text);
  REQUIRE(json["checks"][0]["name"] == name);
  REQUIRE(json["checks"][0]["detail"] == "not UTF-8: \xef\xbf\xbd");
  REQUIRE(json["warnings"][0] == name);
}

TEST_CASE("a result without a scenario object is a bug, not a file") {
  for (const char* text : {"", "[1]", "{\"a\": ", "null"}) {
    Result result;
    result.scenario_json = text;
    REQUIRE_THROWS_AS(to_json(result), Error);
  }
}

}  // namespace
}  // namespace shardsim
