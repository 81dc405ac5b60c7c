#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/app/file_limit.hpp"

// On a full disk a plan, an export, a calibration or a merge left half a file in place of a whole
// one.
namespace shardsim::test {

TEST_CASE("where there is no room for a file, the old one stays") {
  const std::string plan = "scenarios/quickstart.json";
  const TemporaryFolder parts;
  REQUIRE(
      shardsim({"sweep", plan, "--axis", "parallelism.zero_stage=1,2", "-q", "--out", parts.path()})
          .exit_code == 0);
  const std::vector<std::vector<std::string>> commands = {
      {plan, "--out", ".", "--set", "output.result=old"},
      {"plan", "gpt2", "--gpus", "8", "--gpu", "h100", "--time-limit", "0", "--out"},
      {"plan", "gpt2", "--gpus", "8", "--gpu", "h100", "--time-limit", "0", "--csv"},
      {"export", "nccl-tests", plan, "-o"},
      {"export", "schedule", "scenarios/verify-gpt-pp4-1f1b.json", "-o"},
      {"calibrate", "tests/calibration/data/a100-2x8-all-reduce.txt", "--system", "dgx-a100",
       "--out"},
      {"merge", parts.path(), "-o"},
      {"merge", parts.path(), "--csv", "-o"},
  };
  for (std::vector<std::string> words : commands) {
    const TemporaryFolder folder;
    write(folder / "old", "what was there");
    if (words[0] == plan) {
      words[2] = folder.path();
    } else {
      words.push_back(folder / "old");
    }
    Printed printed;
    {
      const FileLimit limit(16);
      printed = shardsim(words);
    }
    INFO(words[0] << " " << words[1] << " " << printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "error[E0901]"));
    CHECK(contains(printed.err, "it would be larger than a file may be"));
    CHECK(content_of(folder / "old") == "what was there");
    CHECK(files_in(folder) == std::vector<std::string>{"old"});
  }
}

}  // namespace shardsim::test
