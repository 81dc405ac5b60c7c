#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/app/folding_fixture.hpp"

// Ranks that faults tell apart are not run once for all.
namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

Result small(const std::string& fault, const std::string& fold) {
  return planned(small_plan("llama"), {"parallelism.tp=2", "parallelism.pp=4", fault}, fold);
}

std::string refusal_of(const std::string& fault) {
  try {
    small(fault, "require");
  } catch (const LimitError& error) {
    CHECK(error.code() == "E0310");
    return error.what();
  }
  return "it was folded";
}

}  // namespace

TEST_CASE("what all replicas have alike is folded, with the metrics of all ranks") {
  const char* const faults[] = {
      R"(faults.stragglers=[{"stage": 2, "slowdown": 2}])",
      R"(faults.slow_links=[{"tier": "inter_node", "bandwidth_factor": 0.5}])",
      R"(faults.slow_links=[{"tier": "intra_node", "bandwidth_factor": 0.1}])",
      R"(faults.flapping_links=[{"tier": "inter_node", "down_s": 1e-5, "period_s": 4e-5}])",
  };
  for (const char* fault : faults) {
    INFO(fault);
    const Result folded = small(fault, "require");
    const Result whole = small(fault, "off");
    CHECK(difference(folded, whole).empty());
    CHECK(num_run(folded) == 8);
    CHECK(*whole.number("step_time_s") > *small("faults={}", "off").number("step_time_s"));
  }
}

TEST_CASE("a fault of one replica is told as what keeps ranks apart") {
  CHECK(refusal_of(R"(faults.stragglers=[{"rank": 3, "slowdown": 2}])") ==
        "execution.fold is \"require\", but rank 3 computes slower than its replicas "
        "(faults.stragglers)");
  // The one that would run for others may be the slow one.
  CHECK(refusal_of(R"(faults.stragglers=[{"rank": 0, "slowdown": 2}])").find("rank 0 computes") !=
        std::string::npos);
  for (const char* fault :
       {R"(faults.slow_links=[{"node": 1, "bandwidth_factor": 0.5}])",
        R"(faults.flapping_links=[{"node": 1, "down_s": 1e-5, "period_s": 1e-3}])"}) {
    CHECK(refusal_of(fault).find("links of some nodes are worse") != std::string::npos);
  }
}

TEST_CASE("with fold auto every rank then runs, and the result is that of all ranks") {
  for (const char* fault : {R"(faults.stragglers=[{"rank": 3, "slowdown": 2}])",
                            R"(faults.slow_links=[{"node": 1, "bandwidth_factor": 0.5}])"}) {
    INFO(fault);
    const Result result = small(fault, "auto");
    CHECK(num_run(result) == 16);
    CHECK(difference(result, small(fault, "off")).empty());
    REQUIRE(result.warnings.size() == 1);
    CHECK(result.warnings.front().rfind("execution.fold is auto, but every rank was run: ", 0) ==
          0);
  }
}

}  // namespace shardsim::test
