#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// The strategies that ship keep the rules that the harness holds programs to: nobody touches a
// buffer in flight, and calls of several groups come in one order on all ranks.
namespace shardsim::test {
namespace {

// Larger plans cost minutes and post nothing that these do not.
constexpr std::int64_t kMostRanks = 64;

bool is_of_watch(const std::string& warning) {
  return warning.starts_with("NCCL_UNSAFE") || warning.starts_with("BUF_");
}

std::vector<std::string> small_scenarios() {
  std::vector<std::string> small;
  for (const std::string& path : all_scenarios()) {
    if (load_scenario(path).system.ranks <= kMostRanks) small.push_back(path);
  }
  return small;
}

}  // namespace

TEST_CASE("no shipped scenario touches a buffer in flight, or posts to groups in two orders") {
  const std::vector<std::string> paths = small_scenarios();
  REQUIRE(paths.size() > 70);
  for (const std::string& path : paths) {
    INFO(path);
    const Result result = run_scenario(load_scenario(path), {.watch = true}).result;
    if (result.diagnosis) FAIL_CHECK(result.diagnosis->to_text());
    CHECK(result.exit_code == 0);
    for (const std::string& warning : result.warnings) {
      if (is_of_watch(warning)) FAIL_CHECK(warning);
    }
  }
}

}  // namespace shardsim::test
