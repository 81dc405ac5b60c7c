#include "reports/csv_tables.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/reports/sample_detail.hpp"

namespace shardsim {
namespace {

std::string table(const std::string& name) {
  const std::vector<CsvTable> tables = csv_tables(samples::detail());
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const CsvTable& each) { return each.name == name; });
  REQUIRE(found != tables.end());
  return found->text;
}

TEST_CASE("metrics are names and values, with all digits, in the order of all writers") {
  Result result;
  result.metrics = {{"trace_hash", std::string("00ff")},
                    {"mfu", 1.0 / 3.0},
                    {"own, metric", true},
                    {"step_time_s", 1e-05},
                    {"comm.calls.total", std::int64_t{9007199254740993}}};
  REQUIRE(metrics_csv(result) ==
          "name,value\n"
          "step_time_s,1e-05\n"
          "mfu,0.3333333333333333\n"
          "comm.calls.total,9007199254740993\n"
          "trace_hash,00ff\n"
          "\"own, metric\",true\n");
}

TEST_CASE("tables have a row of names, and quote what needs it") {
  REQUIRE(table("axes") == "axis,exposed_s,hidden_s,bytes_sent\ndp,0.01,0.5,1000\npp,0.01,0,24\n");
  REQUIRE(
      table("links") ==
      "tier,bytes,bandwidth_gb_per_s,busiest_share,busiest\ninside node,1024,450,0.25,rank 3\n");
  REQUIRE(table("schedule") ==
          "stage,rank,track,name,chunk,microbatch,begin_s,end_s\n"
          "0,1,compute,forward,1,2,0,0.5\n"
          "0,1,compute,\"a \"\"quoted\"\", name\",0,-1,0.5,0.6\n");
  REQUIRE(table("operations") == "name,calls,time_s,flops,bytes\nlinear,2,1e-05,8,4\n");
  REQUIRE(table("memory").find("\n0,1,0,1,2,3,4,5\n") != std::string::npos);
  REQUIRE(table("stages").find("\n1,2,0.3333333333333333,0,0,0,1,1,0,0,0,0\n") !=
          std::string::npos);
}

TEST_CASE("traffic has a row for each pair that sends, named by the first ranks of its cell") {
  REQUIRE(table("traffic") ==
          "from_rank,to_rank,ranks_per_cell,steps,bytes\n0,2,2,1,1000\n2,0,2,1,24\n");
}

}  // namespace
}  // namespace shardsim
