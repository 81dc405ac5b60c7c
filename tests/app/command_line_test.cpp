#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/field.hpp"
#include "scenarios/presets.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/approved_file.hpp"

// Verbs, options, and what is said to those who mistype them.
namespace shardsim::test {
namespace {

using nlohmann::json;

}  // namespace

TEST_CASE("every mistake on the command line is named with its way out, and ends with 2") {
  const Mistake mistakes[] = {
      {{}, "no scenario is given", "shardsim scenarios/quickstart.json"},
      {{"run"}, "no scenario is given", "shardsim scenarios/quickstart.json"},
      {{"check"}, "no scenario is given", "shardsim check scenarios/quickstart.json"},
      {{"--jsn", kPlan}, "\"--jsn\" is not an option of \"shardsim run\"", "write \"--json\""},
      {{kPlan, "--jsn"}, "\"--jsn\" is not an option", "write \"--json\""},
      {{"--jsn"}, "\"--jsn\" is not an option", "write \"--json\""},
      {{"check", kPlan, "--quiet"},
       "\"--quiet\" is not an option of \"shardsim check\"",
       "shardsim check --help"},
      {{kPlan, "--xyzzy=3"}, "\"--xyzzy\" is not an option", "shardsim run --help"},
      {{"chek", kPlan}, "\"chek\" is neither a verb nor a file", "shardsim check"},
      {{kPlan, "scenarios/verify-mlp-ddp.json"}, "one word too many", "one scenario at a time"},
      {{"presets", "gpt2", "gpt2-xl"}, "\"gpt2-xl\" is one word too many", "presets --help"},
      {{kPlan, "--set"}, "\"--set\" needs a value", "shardsim run --help"},
      {{kPlan, "--out="}, "\"--out\" needs a value", "shardsim run --help"},
      {{kPlan, "--set", "x"}, "--set needs a path, '=' and a value", "for example"},
      {{kPlan, "--set", "model.sequence=3"}, "unknown field \"sequence\"", "seq_len"},
      {{kPlan, "--backend=gloo"}, "gloo not in {fiber,mpi,nccl}", "shardsim run --help"},
      {{kPlan, "--backend=mpi"}, "shapes only cannot run on --backend=mpi", "tensors=real"},
      {{kPlan, "--timeout=0"}, "--timeout", "shardsim run --help"},
      {{"presets", "gpt5"}, "there is no preset \"gpt5\"", "write \"gpt2\""},
      {{"schema", "trace"}, "trace", "schema --help"},
      {{"nowhere.json"}, "cannot find \"nowhere.json\"", "check the name"},
      {{"scenarios"}, "\"scenarios\" is a folder", "give the name of a file"},
      {{""}, "not the name of a file", ""},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim(mistake.arguments);
    std::string words;
    for (const std::string& word : mistake.arguments) words += " " + word;
    INFO("shardsim" << words << "\n" << printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(printed.out.empty());
    CHECK(printed.err.rfind("error[E", 0) == 0);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
    CHECK(printed.err.back() == '\n');
  }
}

TEST_CASE("the verb run may be left out, and help asked for in any way") {
  CHECK(shardsim({"run", kPlan}).out == shardsim({kPlan}).out);
  CHECK(shardsim({"--json", kPlan}).out == shardsim({kPlan, "--json"}).out);
  CHECK(shardsim({"help"}).out == shardsim({"--help"}).out);
  CHECK(shardsim({"-h"}).out == shardsim({"--help"}).out);
  CHECK(shardsim({"--help"}).exit_code == 0);
  CHECK(contains(shardsim({"--version"}).out, "shardsim "));
}

TEST_CASE("--set wins over the file, the last one over those before") {
  const Printed printed = shardsim({kPlan, "--json", "--set", "execution.seed=5", "--set",
                                    "execution.seed=7", "--set=name=\"mine\""});
  REQUIRE(printed.exit_code == 0);
  const json scenario = json::parse(printed.out)["scenario"];
  CHECK(scenario["execution"]["seed"] == 7);
  CHECK(scenario["name"] == "mine");
}

TEST_CASE("what to run next goes on from what was run, whole however long it is") {
  const Printed fits = shardsim({kPlan, "--set", "name=it's one", "--set", "model.seq_len=4096"});
  const std::string next = "shardsim " + kPlan +
                           " --set 'name=it'\\''s one' --set model.seq_len=4096"
                           " --set output.trace=step.pftrace\n";
  CHECK(contains(fits.out, "  Next: " + next.substr(0, 80)));
  CHECK(contains(fits.err, "next, in full: " + next));
  const Printed large = shardsim({kPlan, "--set", "parallelism.zero_stage=0"});
  CHECK(contains(large.out, "Next: shardsim " + kPlan + " --set parallelism.zero_stage=3\n"));
  CHECK_FALSE(contains(large.err, "in full"));
}

TEST_CASE("check validates any number of files and runs none") {
  std::vector<std::string> arguments = {"check"};
  for (const std::string& path : all_scenarios()) arguments.push_back(path);
  const Printed printed = shardsim(arguments);
  CHECK(printed.exit_code == 0);
  CHECK(printed.err.empty());
  CHECK(std::count(printed.out.begin(), printed.out.end(), '\n') ==
        static_cast<std::ptrdiff_t>(arguments.size() - 1));
  CHECK(shardsim({"check", "--json", kPlan}).out == "{\n  \"errors\": []\n}\n");
}

TEST_CASE("check tells the problems of all files in one list") {
  const Printed text = shardsim({"check", "a.json", kPlan, "b.json"});
  CHECK(text.exit_code == 2);
  CHECK(contains(text.err, "a.json"));
  CHECK(contains(text.err, "b.json"));
  CHECK(contains(text.out, kPlan + ": valid"));
  const Printed printed = shardsim({"check", "--json", "a.json", kPlan, "b.json"});
  CHECK(printed.exit_code == 2);
  CHECK(printed.err.empty());
  const json problems = json::parse(printed.out)["errors"];
  REQUIRE(problems.size() == 2);
  CHECK(problems[0]["file"] == "a.json");
  CHECK(problems[1]["file"] == "b.json");
}

TEST_CASE("with --json every failure is an object with its problems on standard output") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"nowhere.json", "--json"},
        {"--json"},
        {kPlan, "--json", "--set", "a=1"},
        {kPlan, "--json", "--backend=mpi"}}) {
    const Printed printed = shardsim(arguments);
    CHECK(printed.exit_code == 2);
    CHECK(printed.err.empty());
    const json problems = json::parse(printed.out)["errors"];
    REQUIRE(problems.size() == 1);
    CHECK(problems[0]["severity"] == "error");
    CHECK_FALSE(problems[0]["help"].get<std::string>().empty());
  }
}

TEST_CASE("presets are listed, and each is shown as the file it is") {
  const Printed list = shardsim({"presets"});
  const Printed names = shardsim({"presets", "--names"});
  CHECK(list.exit_code == 0);
  for (const PresetInfo& preset : list_builtin_presets()) {
    CHECK(contains(list.out, "  " + preset.name + " "));
    CHECK(contains(names.out, " " + preset.name + "\n"));
    CHECK(shardsim({"presets", preset.name}).out == content_of(preset.path));
  }
}

TEST_CASE("the page of presets says what of each model is modelled, and what is not") {
  const Printed page = shardsim({"presets", "--page"});
  CHECK(page.exit_code == 0);
  require_approved_file("docs/guide/model-presets.md", page.out);
  CHECK(shardsim({"presets", "--page", "gpt2"}).exit_code == 2);
}

TEST_CASE("the page of prices says what comes from measurements, and what from elsewhere") {
  const Printed page = shardsim({"presets", "--prices"});
  CHECK(page.exit_code == 0);
  require_approved_file("docs/guide/prices.md", page.out);
  CHECK(contains(page.out, "| dgx-h200 | as H100 |"));
  CHECK(contains(page.out, "| hgx-h800 | as H100 | as H100 | as H100 | none |"));
  CHECK(contains(page.out, "| tpu-v5p | data sheet |"));
  CHECK(contains(page.out, "| dgx-b200 | measured | measured | measured | measured |"));
  CHECK(shardsim({"presets", "--prices", "gpt2"}).exit_code == 2);
  const Printed two = shardsim({"presets", "--prices", "--names"});
  CHECK(two.exit_code == 2);
  CHECK(contains(two.err, "error[E0915]: only one thing is printed"));
}

TEST_CASE("both schemas are printed as the files that ship") {
  CHECK(shardsim({"schema"}).out == scenario_schema());
  CHECK(shardsim({"schema", "scenario"}).out == content_of("scenarios/scenario.schema.json"));
  CHECK(shardsim({"schema", "result"}).out == content_of("reports/schema/result.schema.json"));
}

TEST_CASE("files a scenario names are written below --out, complete and under their names") {
  const TemporaryFolder folder;
  const Printed printed =
      shardsim({kPlan, "--json", "--out", folder.path(), "--set", "output.result=deep/r.json",
                "--set", "output.trace=t.pftrace"});
  CHECK(printed.exit_code == 0);
  CHECK(files_in(folder) == std::vector<std::string>{"deep/r.json", "t.pftrace"});
  CHECK(content_of(folder / "deep/r.json") == printed.out);
  CHECK(content_of(folder / "t.pftrace").size() > 1000);
  CHECK(contains(printed.err, "wrote " + folder / "t.pftrace"));

  CHECK(
      shardsim({"-q", kPlan, "--out", folder.path(), "--set", "output.trace=t.json"}).err.empty());
  CHECK_FALSE(json::parse(content_of(folder / "t.json")).empty());
}

TEST_CASE("nothing is written outside the output folder, and what cannot be written is an error") {
  const TemporaryFolder folder;
  for (const char* path : {"../r.json", "/r.json", "a/../../r.json", "~/r.json"}) {
    const Printed printed =
        shardsim({kPlan, "--out", folder.path(), "--set", std::string("output.result=") + path});
    INFO(path);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "E0110"));
  }
  CHECK(files_in(folder).empty());
  const Printed blocked =
      shardsim({"-q", kPlan, "--out", kPlan, "--set", "output.result=r.json"});  // A file.
  CHECK(blocked.exit_code == 2);
  CHECK(contains(blocked.err, "cannot write \"" + kPlan + "/r.json\""));
  CHECK(contains(blocked.err, "--out"));
}

}  // namespace shardsim::test
