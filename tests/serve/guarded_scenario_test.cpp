#include "sim/serve/guarded_scenario.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "scenarios/confined_reading.hpp"

#include "tests/temporary_folder.hpp"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

// The scenario of a test, and more members.
std::string scenario_with(const std::string& more) {
  return R"({"schema_version": 1, "name": "a", "model": "gpt2",
             "system": {"preset": "dgx-h100", "nodes": 1},
             "training": {"global_batch_size": 32, "micro_batch_size": 1})" +
         (more.empty() ? "" : ", " + more) + "}";
}

constexpr const char* kScheduleCsv = "0F0,0F1,,0B0,0B1\n";

std::string scenario_with_schedule(const std::string& file) {
  return scenario_with(R"("parallelism": {"pp": 2, "schedule": "file", "schedule_file": ")" + file +
                       "\"}");
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

// Folders as the server has them: that of the scenarios, with one beside it that is out of bounds.
struct Folders {
  test::TemporaryFolder all;
  fs::path own = fs::path(all.path()) / "own";
  fs::path other = fs::path(all.path()) / "other";

  Folders() {
    fs::create_directories(own / "models");
    fs::create_directories(other);
    write_text(other / "secret.csv", kScheduleCsv);
    write_text(other / "secret.json", R"({"family": "mlp"})");
  }

  [[nodiscard]] std::string code_of(const std::string& text) const {
    const ConfinedReading confined(readable_folders(own.string()));
    return code_in(text, own.string());
  }
  static std::string code_in(const std::string& text, const std::string& folder) {
    try {
      (void)guarded_scenario(text, folder, {});
    } catch (const Error& error) {
      return error.code();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("A plan of presets is taken, with a folder and without", "[serve]") {
  CHECK(Folders().code_of(scenario_with("")).empty());
  const ConfinedReading confined(readable_folders(""));
  CHECK(Folders::code_in(scenario_with(""), "").empty());
}

TEST_CASE("Scenarios that would write, or compute with data, are refused", "[serve]") {
  const Folders folders;
  for (const char* output : {R"("report": "a.html")", R"("markdown": "a.md")", R"("csv": "a.csv")",
                             R"("trace": "a.pftrace")", R"("result": "a.json")"}) {
    CAPTURE(output);
    CHECK(folders.code_of(scenario_with(std::string(R"("output": {)") + output + "}")) == "E0362");
  }
  CHECK(folders.code_of(R"({"schema_version": 1, "name": "a", "system": {"preset": "dgx-h100",
    "ranks": 2, "gpus_per_node": 2}, "training": {"global_batch_size": 2, "micro_batch_size": 1},
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "ffn_hidden_size": 8,
              "vocab_size": 8}, "execution": {"tensors": "real"}})") == "E0361");
}

TEST_CASE("A schedule's file is read below the folder alone", "[serve]") {
  const Folders folders;
  write_text(folders.own / "mine.csv", kScheduleCsv);
  fs::create_symlink(folders.other / "secret.csv", folders.own / "link.csv");
  fs::create_symlink(folders.other, folders.own / "folder");
  // It is read: it is a schedule of other microbatches.
  CHECK(folders.code_of(scenario_with_schedule("mine.csv")) == "E0206");
  for (const std::string& file :
       {std::string("../other/secret.csv"), std::string("link.csv"),
        std::string("folder/secret.csv"), (folders.other / "secret.csv").string(),
        std::string("/etc/passwd"), std::string("../../../../../../etc/passwd"),
        std::string("no-such-file.csv"), std::string("models/../../other/secret.csv")}) {
    CAPTURE(file);
    const std::string code = folders.code_of(scenario_with_schedule(file));
    CHECK((code == "E0008" || code == "E0110"));
  }
}

TEST_CASE("A preset beside the scenario is no way out of the folder", "[serve]") {
  const Folders folders;
  const auto of_model = [](const std::string& name) {
    std::string text = scenario_with("");
    text.replace(text.find("gpt2"), 4, name);
    return text;
  };
  fs::create_symlink(folders.other / "secret.json", folders.own / "models" / "linked.json");
  CHECK(folders.code_of(of_model("linked")) == "E0008");
  CHECK(folders.code_of(of_model("../../other/secret")) == "E0105");
}

TEST_CASE("Without a folder no file is read", "[serve]") {
  const ConfinedReading confined(readable_folders(""));
  const std::string code =
      Folders::code_in(scenario_with_schedule("scenarios/verify-llama-pp2-schedule-file.csv"), "");
  CHECK(code == "E0008");
}

TEST_CASE("Routing is read below the folder alone", "[serve]") {
  const Folders folders;
  const auto with_routing = [](const std::string& file) {
    return R"({"schema_version": 1, "name": "a",
      "model": {"preset": "mixtral-8x7b", "moe_routing": "file", "moe_popularity_file": ")" +
           file + R"("}, "system": {"preset": "dgx-h100", "nodes": 1},
      "training": {"global_batch_size": 32, "micro_batch_size": 1}})";
  };
  write_text(folders.own / "mine.json", "[1, 1, 1, 1, 1, 1, 1, 1]");
  CHECK(folders.code_of(with_routing("mine.json")).empty());
  // It exists in the folder where the test runs.
  CHECK(folders.code_of(with_routing("scenarios/routing/eight-experts.json")) == "E0008");
  CHECK(folders.code_of(with_routing("/etc/passwd")) == "E0008");
}

TEST_CASE("Large scenarios are refused before they run", "[serve]") {
  const Folders folders;
  CHECK(folders.code_of(scenario_with(R"("execution": {"steps": 4166})")).empty());
  CHECK(folders.code_of(scenario_with(R"("execution": {"steps": 4167})")) == "E0367");
  CHECK(folders.code_of(scenario_with(R"("execution": {"steps": 1000000})")) == "E0354");
}

TEST_CASE("Errors of a page's scenario name no folder of the machine", "[serve]") {
  const Folders folders;
  try {
    (void)guarded_scenario(R"({"schema_version": 1})", folders.own.string(), {});
    FAIL("it was taken");
  } catch (const ScenarioError& error) {
    CHECK(error.to_json().find(folders.own.string()) == std::string::npos);
    CHECK(error.problems().front().file == kScenarioOfPage);
  }
}

}  // namespace shardsim
