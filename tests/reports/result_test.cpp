#include "reports/result.hpp"

#include <set>

#include <catch2/catch.hpp>

#include "tests/reports/sample_results.hpp"

namespace shardsim {
namespace {

TEST_CASE("a metric is found by its name and read as a number") {
  Result result;
  result.metrics = {{"a", std::int64_t{3}}, {"b", 0.5}, {"c", true}, {"d", std::string("x")}};
  REQUIRE(result.number("a") == 3.0);
  REQUIRE(result.number("b") == 0.5);
  REQUIRE(result.number("c") == 1.0);
  REQUIRE_FALSE(result.number("d").has_value());
  REQUIRE_FALSE(result.number("e").has_value());
  REQUIRE(std::get<std::string>(*result.find("d")) == "x");
  REQUIRE(result.find("") == nullptr);
}

TEST_CASE("metric names are listed once each, in the order that results promise") {
  const std::vector<std::string>& names = metric_names();
  REQUIRE(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  REQUIRE(names.size() == 80);
  REQUIRE(names.front() == "step_time_s");
  REQUIRE(names[13] == "memory.peak_bytes.max");
  REQUIRE(names[73] == "trace_hash");
  REQUIRE(names.back() == "oracle.passed");
}

TEST_CASE("every metric of the sample results has a listed name") {
  const std::set<std::string> names(metric_names().begin(), metric_names().end());
  for (const samples::Sample& sample : {samples::plan(), samples::verified()}) {
    for (const Metric& metric : sample.result.metrics) {
      INFO(metric.name);
      REQUIRE(names.contains(metric.name));
    }
  }
}

}  // namespace
}  // namespace shardsim
