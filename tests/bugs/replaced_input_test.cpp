#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// An output that named an input file of the command destroyed it: `--set output.result=in.json`.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

// Gives the last file of a folder further names, and runs in that folder. Then checks that all
// files are unchanged and that no others exist.
void require_refused_in(const TemporaryFolder& folder, const std::string& last,
                        const std::vector<std::string>& words) {
  fs::create_directory(folder / "sub");
  fs::create_symlink(folder.path(), folder / "sub/up");
  fs::create_symlink(last, folder / "link.csv");
  fs::create_hard_link(folder / last, folder / "twin.csv");
  std::map<std::string, std::string> before;
  for (const std::string& file : files_in(folder)) before[file] = content_of(folder / file);
  Printed printed;
  {
    const CurrentFolder here(folder.path());
    printed = shardsim(words);
  }
  for (const std::string& word : words) UNSCOPED_INFO(word);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E0910]"));
  CHECK(printed.out.empty());  // Nothing ran.
  std::map<std::string, std::string> after;
  for (const std::string& file : files_in(folder)) after[file] = content_of(folder / file);
  CHECK(after == before);
}

void copy_into(const TemporaryFolder& folder, const std::string& from, const std::string& file) {
  fs::create_directories(fs::path(folder / file).parent_path());
  fs::copy_file(from + file, folder / file);
}

// With copies of the named files of `scenarios/`.
void require_refused(const std::vector<std::string>& files, const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  for (const std::string& file : files) copy_into(folder, "scenarios/", file);
  require_refused_in(folder, files.back(), words);
}

}  // namespace

TEST_CASE("a run does not write over the scenario, by whatever name") {
  const std::string file = "quickstart.json";
  for (const char* name : {"quickstart.json", "sub/up/quickstart.json", "link.csv", "twin.csv"}) {
    const std::string output = std::string("output.markdown=") + name;
    require_refused({file}, {file, "--set", output});
    require_refused({file},
                    {file, "--set", std::string("output.markdown=up/") + name, "--out", "sub"});
    require_refused({file}, {"check", file, "--set", output});
  }
}

TEST_CASE("a run does not write over a schedule that it reads") {
  const std::vector<std::string> files = {"verify-llama-pp2-schedule-file.json",
                                          "verify-llama-pp2-schedule-file.csv"};
  for (const std::string& name : {files.back(), std::string("link.csv"), std::string("twin.csv")}) {
    require_refused(files, {files.front(), "--set", "output.csv=" + name});
  }
  require_refused(files, {"export", "schedule", files.front(), "-o", "sub/up/link.csv"});
}

TEST_CASE("a run does not write over the popularity of experts that it reads") {
  const std::vector<std::string> files = {"verify-llama-ep2-file.json",
                                          "routing/eight-experts.json"};
  require_refused(files, {files.front(), "--set", "output.trace=routing/eight-experts.json"});
}

TEST_CASE("a run does not write over the decisions that it replays") {
  const TemporaryFolder folder;
  copy_into(folder, "scenarios/", "verify-llama-ep4-learned.json");
  const std::string file = folder / "verify-llama-ep4-learned.json";
  const std::string record = "decisions.json";
  REQUIRE(shardsim({file, "-q", "--record-decisions", folder / record}).exit_code == 0);
  for (const std::string name :
       {"decisions.json", "sub/up/decisions.json", "link.csv", "twin.csv"}) {
    const TemporaryFolder here;
    copy_into(here, folder.path() + "/", "verify-llama-ep4-learned.json");
    copy_into(here, folder.path() + "/", record);
    require_refused_in(here, record,
                       {"verify-llama-ep4-learned.json", "--set", "execution.tensors=meta",
                        "--replay-decisions", record, "--set", "output.markdown=" + name});
  }
}

TEST_CASE("two outputs of a run are two files, through links, too") {
  const std::string file = "quickstart.json";
  require_refused(
      {file}, {file, "--set", "output.result=new.json", "--set", "output.trace=sub/up/new.json"});
  require_refused({file}, {file, "--set", "output.csv=new.csv", "--set",
                           "output.markdown=sub/up/new.stages.csv"});
}

TEST_CASE("plans, imports and exports do not write over what they read") {
  const std::string file = "quickstart.json";
  require_refused({file}, {"plan", file, "--gpus", "8", "--gpu", "h100", "--out", file});
  require_refused({file}, {"plan", file, "--gpus", "8", "--gpu", "h100", "--csv", "twin.csv"});
  require_refused(
      {file}, {"plan", file, "--gpus", "8", "--gpu", "h100", "--csv", "a", "--report", "sub/up/a"});
  require_refused({file}, {"export", "nccl-tests", file, "-o", "sub/../quickstart.json"});
  require_refused({file}, {"import", "hf", file, "-o", "link.csv"});
}

TEST_CASE("a calibration does not write over a table that it reads") {
  const std::string file = "a100-2x8-all-reduce.txt";
  for (const std::string& name :
       {file, "sub/up/" + file, std::string("link.csv"), std::string("twin.csv")}) {
    const TemporaryFolder folder;
    copy_into(folder, "tests/calibration/data/", file);
    require_refused_in(folder, file, {"calibrate", file, "--system", "dgx-a100", "--out", name});
  }
}

TEST_CASE("a calibration does not write over the scenario that names its machine") {
  const TemporaryFolder folder;
  const std::string file = "quickstart.json";
  copy_into(folder, "tests/calibration/data/", "a100-2x8-all-reduce.txt");
  copy_into(folder, "scenarios/", file);
  require_refused_in(
      folder, file,
      {"calibrate", "a100-2x8-all-reduce.txt", "--system", "./" + file, "--out", "twin.csv"});
}

TEST_CASE("a merge does not write over a part that it reads") {
  const std::string part = "parts/part-0-of-1.ndjson";
  for (const std::string& name :
       {part, "sub/up/" + part, std::string("link.csv"), std::string("twin.csv")}) {
    const TemporaryFolder folder;
    REQUIRE(shardsim({"sweep", kPlan, "--axis", "parallelism.zero_stage=1,2", "-q", "--out",
                      folder / "parts"})
                .exit_code == 0);
    require_refused_in(folder, part, {"merge", "parts", "-o", name});
  }
}

}  // namespace shardsim::test
