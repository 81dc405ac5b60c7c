#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// An output that named an input file of the command destroyed it: `--set output.result=in.json`.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

// Runs in a new folder with copies of the named files of `scenarios/`. Then checks that the files
// are unchanged and that no others exist.
void require_refused(const std::vector<std::string>& files, std::vector<std::string> words) {
  const fs::path root = fs::current_path();
  const TemporaryFolder folder;
  for (const std::string& file : files) {
    fs::create_directories(fs::path(folder / file).parent_path());
    fs::copy_file("scenarios/" + file, folder / file);
  }
  fs::create_directory(folder / "sub");
  fs::create_symlink(folder.path(), folder / "sub/up");
  fs::create_symlink(files.back(), folder / "link.csv");
  fs::create_hard_link(folder / files.back(), folder / "twin.csv");
  const std::vector<std::string> before = files_in(folder);
  fs::current_path(folder.path());
  const Printed printed = shardsim(words);
  fs::current_path(root);
  for (const std::string& word : words) UNSCOPED_INFO(word);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E0910]"));
  CHECK(printed.out.empty());  // Nothing ran.
  CHECK(files_in(folder) == before);
  for (const std::string& file : files) {
    CHECK(content_of(folder / file) == content_of("scenarios/" + file));
  }
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

TEST_CASE("two outputs of a run are two files, through links, too") {
  const std::string file = "quickstart.json";
  require_refused(
      {file}, {file, "--set", "output.result=new.json", "--set", "output.trace=sub/up/new.json"});
  require_refused({file}, {file, "--set", "output.csv=new.csv", "--set",
                           "output.markdown=sub/up/new.stages.csv"});
}

TEST_CASE("plans, imports, exports and merges do not write over what they read") {
  const std::string file = "quickstart.json";
  require_refused({file}, {"plan", file, "--gpus", "8", "--gpu", "h100", "--out", file});
  require_refused({file}, {"plan", file, "--gpus", "8", "--gpu", "h100", "--csv", "twin.csv"});
  require_refused(
      {file}, {"plan", file, "--gpus", "8", "--gpu", "h100", "--csv", "a", "--report", "sub/up/a"});
  require_refused({file}, {"export", "nccl-tests", file, "-o", "sub/../quickstart.json"});
  require_refused({file}, {"import", "hf", file, "-o", "link.csv"});
}

}  // namespace shardsim::test
