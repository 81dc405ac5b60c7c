#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/explore/planted_schedules.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// --shrink: the smallest scenario that fails with the same code, as a command and as a file.
namespace shardsim::test {
namespace {

RunArguments shrinking(const std::string& file, const TemporaryFolder& folder) {
  RunArguments arguments;
  arguments.file = file;
  arguments.explore.shrink = true;
  arguments.explore.shrunk_directory = folder.path();
  return arguments;
}

}  // namespace

TEST_CASE("gradients averaged twice: two ranks and one step are left") {
  const TemporaryFolder folder;
  const RunHooks hooks{.wrap_world = plant(double_averaging())};
  const Printed printed = shardsim_with(shrinking("scenarios/verify-mlp-ddp.json", folder), hooks);
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 1);
  CHECK(contains(printed.out, "shrunk from 8 ranks to 2, in "));
  CHECK(contains(printed.out, "--set execution.steps=1"));
  const std::string file = folder / "shrunk.json";
  const Scenario shrunk = load_scenario(file);
  CHECK(shrunk.system.ranks == 2);
  CHECK(shrunk.execution.steps == 1);
  CHECK(shrunk.training.num_microbatches == 1);
  CHECK(shrunk.model.num_layers == 1);
  CHECK(shrunk.model.hidden_size == 1);
  RunArguments again;
  again.file = file;
  CHECK(shardsim_with(again, hooks).exit_code == 1);
}

TEST_CASE("a hazard of a ring beside other axes: the ring is left, with its token") {
  const TemporaryFolder folder;
  const RunHooks hooks{.wrap_world = plant(sends_first())};
  RunArguments arguments = shrinking("scenarios/verify-llama-cp2-tp2-dp2.json", folder);
  arguments.explore.mode = "dpor";
  arguments.json = true;
  const Printed printed = shardsim_with(arguments, hooks);
  INFO(printed.err);
  CHECK(printed.exit_code == 4);
  CHECK(nlohmann::json::parse(printed.out)["diagnosis"]["code"] == "BUFFER_HAZARD");
  CHECK(contains(printed.err, "shrunk from 8 ranks to 2, in "));
  CHECK(contains(printed.err, "BUFFER_HAZARD"));
  const std::size_t at = printed.err.find("--replay ");
  REQUIRE(at != std::string::npos);
  RunArguments again;
  again.file = folder / "shrunk.json";
  CHECK(load_scenario(again.file).parallelism.cp == 2);
  const std::size_t begin = at + std::string("--replay ").size();
  again.explore.replay = printed.err.substr(begin, printed.err.find('\n', begin) - begin);
  CHECK(shardsim_with(again, hooks).exit_code == 4);
}

TEST_CASE("what only some orders show is shrunk under orders of its own") {
  const TemporaryFolder folder;
  RunArguments arguments = shrinking("scenarios/verify-mlp-ddp.json", folder);
  arguments.explore.mode = "pct";
  const Printed printed = shardsim_with(arguments, depends_on_who_is_first());
  INFO(printed.out);
  CHECK(printed.exit_code == 4);
  CHECK(contains(printed.out, "shrunk from 8 ranks to 2, in "));
  const std::size_t shrunk = printed.out.find("shrunk from");
  CHECK(printed.out.find("SCHEDULE_DEPENDS", shrunk) != std::string::npos);
  CHECK(load_scenario(folder / "shrunk.json").execution.steps == 1);
}

TEST_CASE("what does not fail is not shrunk") {
  const Printed printed = shardsim({"scenarios/verify-mlp-ddp.json", "--shrink"});
  CHECK(printed.exit_code == 0);
  CHECK_FALSE(contains(printed.out, "shrunk"));
}

}  // namespace shardsim::test
