#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// A faster network changed nothing, and `collective` did not say why. Runs are tested in
// tests/bugs/silent_limits_test.cpp.
namespace shardsim::test {
namespace {

std::string warnings_with(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"collective", "all_reduce", "--ranks", "16",       "--nodes",
                                    "16",         "-c",         "0",       "--system", "dgx-h100"};
  for (const std::string& flag : flags) {
    words.emplace_back("--set");
    words.push_back(flag);
  }
  const Printed printed = shardsim(words);
  CHECK(printed.exit_code == 0);
  std::string warnings;
  for (std::size_t at = printed.err.find("warning: "); at != std::string::npos;
       at = printed.err.find("warning: ", at + 1)) {
    warnings += printed.err.substr(at, printed.err.find('\n', at) + 1 - at);
  }
  return warnings;
}

}  // namespace

TEST_CASE("desk point 5: collective names a setting without effect, and what wins", "[desk-5]") {
  const std::string network = "system.inter_node.bandwidth_gb_per_s";
  CHECK(warnings_with({}).empty());
  CHECK(warnings_with({network + "=25"}).empty());
  for (const char* const speed : {"100", "400"}) {
    CHECK(warnings_with({network + "=" + speed}) ==
          "warning: " + network +
              " has no effect here: a stricter limit always applies: system.pcie_gb_per_s\n");
  }
  CHECK(warnings_with({network + "=400", "system.pcie_gb_per_s=400"}).empty());
}

TEST_CASE("desk point 5: collective names what NCCL's model does not read", "[desk-5]") {
  for (const std::string field : {"system.inter_node.latency_us", "system.intra_node.latency_us",
                                  "system.host_us_per_kernel"}) {
    CHECK(warnings_with({field + "=123"}) ==
          "warning: " + field + " has no effect here: this run does not use it\n");
  }
  // With links of latency and bandwidth it is read.
  CHECK(warnings_with({"system.network_model=alpha_beta", "system.inter_node.latency_us=99"})
            .empty());
}

}  // namespace shardsim::test
