#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"

// The paths that a run writes, --record-decisions included, and the refusals before it.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The code with which a run of `file` that records into `record` is refused.
std::string code_of_refusal(const std::string& file, const std::string& record,
                            const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {file, "--json", "--record-decisions", record};
  words.insert(words.end(), more.begin(), more.end());
  const Printed printed = shardsim(words);
  INFO(printed.out);
  CHECK(printed.exit_code == 2);
  CHECK(printed.err.empty());  // Not one line of progress: nothing ran.
  return json::parse(printed.out)["errors"][0]["code"];
}

}  // namespace

TEST_CASE("an empty name of a record is bad usage, not a run without one") {
  for (const char* option : {"--record-decisions", "--replay-decisions"}) {
    INFO(option);
    const std::vector<std::vector<std::string>> written = {{option, ""},
                                                           {std::string(option) + "="}};
    for (std::vector<std::string> words : written) {
      words.insert(words.begin(), kSkipping);
      const Printed printed = shardsim(words);
      CHECK(printed.exit_code == 2);
      CHECK(printed.out.empty());
      // A word that is empty is none for CLI11; an empty value is one.
      CHECK((contains(printed.err, "error[E0904]") || contains(printed.err, "error[E0912]")));
      CHECK(contains(printed.err, option));
    }
  }
}

TEST_CASE("a record replaces nothing that its run reads or writes") {
  const TemporaryFolder folder;
  const std::string scenario = folder / "s.json";
  const std::string text = content_of(kSkipping);
  write(scenario, text);
  CHECK(code_of_refusal(scenario, scenario) == "E0910");
  CHECK(code_of_refusal(scenario, folder / "none/../s.json") == "E0910");
  fs::create_symlink("s.json", folder / "link.json");
  CHECK(code_of_refusal(scenario, folder / "link.json") == "E0910");
  fs::create_hard_link(scenario, folder / "twin.json");
  CHECK(code_of_refusal(scenario, folder / "twin.json") == "E0910");
  const std::vector<std::string> result = {"--out", folder.path(), "--set",
                                           "output.result=runs/r.json"};
  CHECK(code_of_refusal(scenario, folder / "runs/r.json", result) == "E0910");
  CHECK(code_of_refusal(scenario, folder / "runs", result) == "E0910");
  CHECK(code_of_refusal(scenario, folder / "runs/r.json/record.json", result) == "E0910");
  CHECK(code_of_refusal(scenario, folder / "t.json",
                        {"--out", folder.path(), "--set", "output.trace=t.json"}) == "E0910");
  write(folder / "skips.json", "a record");
  CHECK(code_of_refusal(scenario, folder / "skips.json",
                        {"--replay-decisions", folder / "skips.json"}) == "E0910");
  CHECK(content_of(scenario) == text);
  CHECK(content_of(folder / "skips.json") == "a record");
}

TEST_CASE("a record that cannot be written is refused before the run") {
  const TemporaryFolder folder;
  write(folder / "file", "");
  CHECK(code_of_refusal(kSkipping, folder.path()) == "E0901");
  CHECK(code_of_refusal(kSkipping, folder / "new/") == "E0901");
  CHECK(code_of_refusal(kSkipping, folder / "file/record.json") == "E0901");
  CHECK(code_of_refusal(kSkipping, folder / "file/new/record.json") == "E0901");
  CHECK(files_in(folder) == std::vector<std::string>{"file"});
}

TEST_CASE("records are relative to the current folder, whatever --out says") {
  const std::string scenario = fs::absolute(kSkipping).string();
  const TemporaryFolder folder;
  const CurrentFolder here(folder.path());
  const Printed real = shardsim({scenario, "-q", "--out", "out", "--record-decisions",
                                 "new/skips.json", "--set", "output.result=r.json"});
  CHECK(real.exit_code == 0);
  CHECK(files_in(folder) == std::vector<std::string>{"new/skips.json", "out/r.json"});
  const Printed replayed =
      shardsim({scenario, "-q", "--out", "out", "--replay-decisions", "new/skips.json", "--set",
                "execution.tensors=meta", "--set", kLargeDevice});
  CHECK(replayed.exit_code == 0);
}

TEST_CASE("a run that does not finish says that it wrote no record") {
  const TemporaryFolder folder;
  RunArguments arguments;
  arguments.file = kSkipping;
  arguments.quiet = true;
  arguments.record_decisions = folder / "skips.json";
  const auto forget = [](PipelineSchedule& schedule) { schedule.actions[0].pop_back(); };
  const Printed printed = shardsim_with(arguments, {.edit_schedule = forget});
  CHECK(printed.exit_code == 4);
  CHECK(printed.err == "no record written: the run did not finish\n");
  CHECK(files_in(folder).empty());
}

}  // namespace shardsim::test
