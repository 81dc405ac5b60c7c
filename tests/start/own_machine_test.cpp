#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/temporary_folder.hpp"

// A machine of the user's own: systems/NAME.json beside the scenario, or in the current folder.
namespace shardsim::test {
namespace {

using nlohmann::json;

// A DGX A100 whose peaks are half as high.
std::string slow_a100() {
  std::string text = shardsim({"presets", "dgx-a100"}).out;
  const std::string peak = "\"bf16\": 312";
  const std::size_t at = text.find(peak);
  REQUIRE(at != std::string::npos);
  return text.replace(at, peak.size(), "\"bf16\": 156");
}

void put_machine(const std::filesystem::path& folder, const std::string& name,
                 const std::string& text) {
  std::filesystem::create_directories(folder / "systems");
  write((folder / "systems" / (name + ".json")).string(), text);
}

double best_step_time(const std::string& model, const std::string& gpu) {
  const Printed plan = shardsim({"plan", model, "--gpus", "8", "--gpu", gpu, "--fix", "tp=1",
                                 "--fix", "pp=1", "--fix", "cp=1", "--json"});
  INFO(plan.out << plan.err);
  REQUIRE(plan.exit_code == 0);
  return json::parse(plan.out).at("ranked").at(0).at("metrics").at("step_time_s");
}

json row_of(const json& rows, const std::string& name) {
  for (const json& row : rows) {
    if (row.at("name") == name) return row;
  }
  return {};
}

}  // namespace

TEST_CASE("every verb finds a machine of the user's own in the current folder") {
  const std::string table =
      std::filesystem::absolute("tests/calibration/data/a100-2x8-all-reduce.txt").string();
  const TemporaryFolder folder;
  put_machine(folder.path(), "our-slow-a100", slow_a100());
  const CurrentFolder here(folder.path());
  CHECK(best_step_time("gpt2", "our-slow-a100") > 1.3 * best_step_time("gpt2", "a100"));
  CHECK(shardsim({"init", "--gpu", "our-slow-a100", "-o", "plan.json"}).exit_code == 0);
  const std::vector<std::vector<std::string>> others = {
      {"run", "plan.json"},
      {"calibrate", table, "--system", "our-slow-a100"},
      {"collective", "all_reduce", "--system", "our-slow-a100", "--ranks", "8", "-b", "8", "-e",
       "8"},
      {"init", "--from", "our-slow-a100", "-o", "-"},
      {"presets", "our-slow-a100"}};
  for (const std::vector<std::string>& words : others) {
    const Printed printed = shardsim(words);
    INFO(words.front() << ": " << printed.err);
    CHECK(printed.exit_code == 0);
  }
}

TEST_CASE("presets marks machines of the user's own, with their files") {
  const TemporaryFolder folder;
  put_machine(folder.path(), "our-slow-a100", slow_a100());
  const CurrentFolder here(folder.path());
  CHECK(contains(shardsim({"presets", "systems"}).out, "your own, systems/our-slow-a100.json\n"));
  CHECK(contains(shardsim({"presets", "--names"}).out, "\nsystem  our-slow-a100\n"));
  const json systems = json::parse(shardsim({"presets", "--json"}).out).at("systems");
  const json own = row_of(systems, "our-slow-a100");
  CHECK(own.at("own_file") == "systems/our-slow-a100.json");
  CHECK(own.at("peak_tflops").at("bf16") == 156);
  CHECK_FALSE(row_of(systems, "dgx-a100").contains("own_file"));
}

TEST_CASE("in the folder of the built-in presets none is the user's own") {
  const CurrentFolder here("scenarios");
  const Printed printed = shardsim({"presets"});
  CHECK(printed.err == "");
  CHECK_FALSE(contains(printed.out, "your own"));
}

TEST_CASE("a plan of a file finds the machines beside that file, as a run of it does") {
  const TemporaryFolder folder;
  const std::string file = folder / "plan.json";
  put_machine(folder.path(), "our-slow-a100", slow_a100());
  CHECK(
      shardsim({"init", "--model", "gpt2", "--gpu", "our-slow-a100", "-o", file, "-q"}).exit_code ==
      0);
  CHECK(shardsim({file, "-q"}).exit_code == 0);
  CHECK(best_step_time(file, "our-slow-a100") > 1.3 * best_step_time(file, "a100"));
  const Printed elsewhere = shardsim({"plan", "gpt2", "--gpus", "8", "--gpu", "our-slow-a100"});
  CHECK(elsewhere.exit_code == 2);
  CHECK(contains(elsewhere.err, "error[E1322]: no GPU or system is called \"our-slow-a100\""));
}

TEST_CASE("a bad machine of the user's own is an error at its file, and not one of presets") {
  const TemporaryFolder folder;
  put_machine(folder.path(), "broken", "{ \"gpus_per_node\": 8,, }");
  put_machine(folder.path(), "empty", "{}");
  put_machine(folder.path(), "misspelt", "{\n  \"gpus\": 8\n}");
  const CurrentFolder here(folder.path());
  struct Bad {
    const char* name;
    const char* said;
  };
  for (const Bad& bad :
       {Bad{"broken", "error[E0002]: expected a key here\n  --> systems/broken.json:1:22"},
        Bad{"misspelt", "error[E0107]: unknown field \"gpus\"\n  --> systems/misspelt.json:2:3"},
        Bad{"empty",
            "error[E0103]: \"device\" is missing in \"system\"\n"
            " --> systems/empty.json   at /system/device\n"}}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"plan", "gpt2", "--gpus", "8", "--gpu", bad.name},
          {"collective", "all_reduce", "--system", bad.name, "--ranks", "8", "-b", "8", "-e",
           "8"}}) {
      const Printed printed = shardsim(words);
      INFO(printed.err);
      CHECK(printed.exit_code == 2);
      CHECK(contains(printed.err, bad.said));
      CHECK(contains(printed.err, "  = help: "));
    }
  }
  const Printed listed = shardsim({"presets", "systems"});
  CHECK(listed.exit_code == 0);
  CHECK(contains(listed.out, "dgx-h100"));
  CHECK(contains(listed.err, "warning: systems/broken.json:1:22 is not listed: expected a key"));
  CHECK(contains(listed.err, "warning: systems/empty.json is not listed: "));
}

}  // namespace shardsim::test
