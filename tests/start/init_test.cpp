#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/field.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "sim/command/command_init.hpp"

#include "tests/app/command_fixture.hpp"

// `shardsim init`: a first scenario that loads, and never over another file.
namespace shardsim::test {

TEST_CASE("a starter of every model and every system loads and has the GPUs asked for") {
  for (const PresetInfo& preset : list_builtin_presets()) {
    StarterAsk ask;
    (preset.folder == "models" ? ask.model : ask.system) = preset.name;
    INFO(preset.name);
    const Scenario scenario = load_scenario_text(starter_text(ask), "scenario.json");
    CHECK(scenario.parallelism.dp_shard == scenario.system.ranks);
    CHECK(scenario.training.global_batch_size == scenario.system.ranks);
    CHECK(scenario.warnings.empty());
  }
  for (const std::int64_t gpus : {1, 3, 8, 128}) {
    const StarterAsk ask{.model = "llama3-8b", .system = "dgx-h100", .gpus = gpus};
    CHECK(load_scenario_text(starter_text(ask), "scenario.json").system.ranks == gpus);
  }
}

TEST_CASE("init writes a scenario and the schema that it names, and says what next") {
  const TemporaryFolder folder;
  const std::string file = folder / "plan.json";
  const Printed printed =
      shardsim({"init", "--model", "llama3-70b", "--gpus", "128", "--gpu", "b200", "-o", file});
  REQUIRE(printed.exit_code == 0);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, "Next: shardsim " + file));
  CHECK(files_in(folder) == std::vector<std::string>{"plan.json", kSchemaFile});
  CHECK(content_of(folder / kSchemaFile) == scenario_schema());
  const Scenario scenario = load_scenario(file);
  CHECK(scenario.model.preset == "llama3-70b");
  CHECK(scenario.system.preset == "dgx-b200");
  CHECK(scenario.system.ranks == 128);
  CHECK(contains(content_of(file), "// 16 x 8 GPUs = 128."));
}

TEST_CASE("init prints with -o - and writes nothing then") {
  const Printed printed = shardsim({"init", "-o", "-"});
  CHECK(printed.exit_code == 0);
  CHECK(printed.out == starter_text(StarterAsk{}));
  CHECK(printed.err.empty());
}

TEST_CASE("init begins with a preset or with a scenario") {
  CHECK(shardsim({"init", "--from", "gpt3-175b", "-o", "-"}).out ==
        starter_text({.model = "gpt3-175b"}));
  CHECK(shardsim({"init", "--from", "dgx-b200", "-o", "-"}).out ==
        starter_text({.system = "dgx-b200"}));
  CHECK(shardsim({"init", "--from", kPlan, "-o", "-"}).out == content_of(kPlan));
}

TEST_CASE("what init refuses is named with its way out, and nothing is written") {
  const TemporaryFolder folder;
  const std::string there = folder / "there.json";
  write(there, "mine");
  const std::string free = folder / "free.json";
  const Mistake mistakes[] = {
      {{"init", "-o", there}, "E0968", "choose another name with -o"},
      {{"init", "--model", "llama3-7b", "-o", free},
       "no model \"llama3-7b\"",
       "= help: write \"llama2-7b\", "},
      {{"init", "--gpu", "h1000", "-o", free}, "no system \"h1000\"", "\"dgx-h100\""},
      {{"init", "--gpus", "12", "-o", free}, "12 GPUs do not fill nodes", "ask for 8 or 16"},
      {{"init", "--gpus", "0", "-o", free}, "--gpus", "init --help"},
      {{"init", "--from", "nowhere.json", "-o", free},
       "cannot find \"nowhere.json\"",
       "check the name"},
      {{"init", "--from", kPlan, "--gpus", "8", "-o", free}, "E0967", "--set"},
      // A copy would not load where its schedule does not lie beside it.
      {{"init", "--from", "scenarios/verify-llama-pp2-schedule-file.json", "-o", free},
       "E0",
       "csv"},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim(mistake.arguments);
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
  }
  CHECK(files_in(folder) == std::vector<std::string>{"there.json"});
  CHECK(content_of(there) == "mine");
}

}  // namespace shardsim::test
