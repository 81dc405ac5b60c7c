#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/sample.hpp"

// No shipped scenario sets a field in vain: none prints the warning that a field has no effect.
namespace shardsim::test {

namespace {

// Larger plans take minutes, unless their replicas are folded: only the loader's warnings are
// checked.
constexpr std::int64_t kMostRanks = 2048;

bool is_quick(const Scenario& scenario) {
  return scenario.system.ranks <= kMostRanks || scenario.execution.fold != "off";
}

std::vector<std::string> shipped() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && name.find(".schema.") == std::string::npos) {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("no shipped scenario has a field without effect") {
  const std::vector<std::string> paths = shipped();
  REQUIRE(paths.size() > 50);
  int num_run = 0;
  for (const std::string& path : paths) {
    if (!in_sample(path, 3)) continue;
    ++num_run;
    INFO(path);
    const Scenario scenario = load_scenario(path, {});
    const std::vector<std::string> warnings =
        is_quick(scenario) ? run_scenario(scenario).result.warnings : scenario.warnings;
    for (const std::string& warning : warnings) {
      INFO(warning);
      CHECK(warning.find("has no effect here") == std::string::npos);
    }
  }
  CHECK(num_run > 10);
}

}  // namespace shardsim::test
