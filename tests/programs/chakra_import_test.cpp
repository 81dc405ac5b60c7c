#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/export/program_chakra.hpp"

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/program_replay.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/temporary_folder.hpp"

// Chakra traces as programs: those that shardsim writes come back as they were, those of others as
// far as they say.
namespace shardsim::test {
namespace {

std::vector<TraceFile> files_of(const ChakraExport& exported) {
  std::vector<TraceFile> files;
  for (const std::string& bytes : exported.ranks) {
    const auto rank = static_cast<int>(files.size());
    files.push_back({rank, "step." + std::to_string(rank) + ".et", bytes});
  }
  return files;
}

// An attribute that no reader knows takes the place of `name`.
void strip(std::vector<TraceFile>& files, const std::string& name) {
  std::string other = name;
  other.back() = '?';
  for (TraceFile& file : files) {
    for (std::size_t at = file.bytes.find(name); at != std::string::npos;
         at = file.bytes.find(name, at)) {
      file.bytes.replace(at, name.size(), other);
    }
  }
}

// By RunRecord's own difference, through the plan's programs.
Time step_of(const Experiment& experiment) {
  return step_on(record_programs(experiment), experiment);
}

}  // namespace

TEST_CASE("each shipped verification, as a plan, takes its time after a way through Chakra") {
  int compared = 0;
  for_each_verification("way", [&](const std::string& name, Scenario scenario) {
    INFO(name);
    const Experiment experiment = compile(scenario);
    if (scenario.parallelism.offloads_activations()) {  // Chakra has one stream of computing.
      CHECK_THROWS_AS(chakra_of_programs(std::move(scenario), {}), UsageError);
      return;
    }
    const ChakraExport exported = chakra_of_programs(std::move(scenario), {});
    const std::vector<TraceFile> files = files_of(exported);
    const ProgramSet set = imported(files, exported.groups);
    if (has_note(set, "some groups were formed within the steps")) {
      CHECK(name == "verify-llama-elastic.json");
      return;
    }
    CHECK(step_on(set, experiment) == step_of(experiment));
    ++compared;
  });
  CHECK(compared > 20);
}

TEST_CASE("durations in picoseconds are enough for the time, whatever the operations are") {
  for_each_verification("picoseconds", [&](const std::string& name, Scenario scenario) {
    if (name.find("tp") == std::string::npos && name.find("zero") == std::string::npos) return;
    if (scenario.parallelism.offloads_activations()) return;
    INFO(name);
    const Experiment experiment = compile(scenario);
    const ChakraExport exported = chakra_of_programs(std::move(scenario), {});
    std::vector<TraceFile> files = files_of(exported);
    strip(files, "operation");
    const ProgramSet set = imported(files, exported.groups);
    CHECK(set.programs.programs.front().tables->num_operations() == 0);
    CHECK(step_on(set, experiment) == step_of(experiment));
  });
}

TEST_CASE("without picoseconds the difference is stated, and is no larger") {
  const Experiment experiment = exported_plan();
  const ChakraExport exported = chakra_of_programs(experiment.scenario(), {});
  std::vector<TraceFile> files = files_of(exported);
  strip(files, "operation");
  CHECK_FALSE(has_note(imported(files, exported.groups), "whole microseconds"));
  strip(files, "duration_picos");
  const ProgramSet set = imported(files, exported.groups);
  REQUIRE(has_note(set, "durations are whole microseconds, so each may be off by 0.5 us"));
  const Time exact = step_of(experiment);
  const Time rounded = step_on(set, experiment);
  CHECK(rounded != exact);
  const RankProgram& program = set.programs.programs.front();
  const auto holes = std::ranges::count(program.steps, ProgramStep::Kind::hole, &ProgramStep::kind);
  const Time bound = Time::from_picoseconds(500'000 * holes * 2);  // Both stages.
  CHECK(max(exact, rounded) - min(exact, rounded) <= bound);
}

TEST_CASE("an imported trace takes on another machine what its plan takes there") {
  const ChakraExport exported = chakra_of_programs(exported_plan().scenario(), {});
  const ProgramSet set = imported(files_of(exported), exported.groups);
  for (const char* machine : {"system.preset=dgx-b200", "system.preset=dgx-a100",
                              "system.host_us_per_kernel=9", "system.host_us_per_call=1000"}) {
    INFO(machine);
    const Experiment other = exported_plan({machine});
    CHECK(step_on(set, other) == step_of(other));
  }
}

TEST_CASE("traces of the first ranks stand for all of their kind") {
  const Experiment whole = exported_plan({"system.nodes=2"});
  const ChakraExport exported = chakra_of_programs(whole.scenario(), {});
  const std::vector<TraceFile> all = files_of(exported);
  REQUIRE(all.size() == 16);
  // Ranks of each stage lie side by side; one of each tensor-parallel pair has a trace.
  TraceSet some = read_chakra({all[0], all[1], all[8], all[9]}, exported.groups);
  complete_ranks(some, 0);
  drop_idle_groups(some);
  const ProgramSet set = link_traces(some);
  CHECK(has_note(set, "12 of 16 ranks have no trace"));
  CHECK(step_on(set, whole) == step_of(whole));
  CHECK_THROWS_AS(complete_ranks(some, 8), UsageError);
  TraceSet twice = read_chakra({all[0], all[0]}, exported.groups);
  CHECK_THROWS_AS(complete_ranks(twice, 0), UsageError);
}

TEST_CASE("property: a trace or program file with wrong bytes is refused or replayed") {
  const Experiment machine = exported_plan();
  const ChakraExport exported = chakra_of_programs(machine.scenario(), {});
  const std::vector<TraceFile> files = files_of(exported);
  const std::string program = program_file_of(record_programs(machine));
  const auto broken = [](std::string text) {
    const int times = *rc::gen::inRange(1, 4);
    for (int i = 0; i < times; ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
      const char byte =
          *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::element('0', '9', ' ', '-', '"'));
      text[at] = byte;
    }
    return text;
  };
  check_property(60, [&] {
    try {
      const bool is_trace = *rc::gen::arbitrary<bool>();
      std::vector<TraceFile> some = files;
      if (is_trace) some[1].bytes = broken(some[1].bytes);
      const ProgramSet set = is_trace ? imported(some, exported.groups)
                                      : read_program_file(broken(program), "test.jsonl");
      if (set.programs.of_rank.size() != 8) return;
      [[maybe_unused]] const Time step = step_on(set, machine);
    } catch (const Error& error) {
      RC_ASSERT(error.exit_code() != ExitCode::internal);
    }
  });
}

TEST_CASE("the command replays traces, and writes them as programs") {
  const TemporaryFolder folder;
  write(folder / "plan.json", exported_plan_text());
  const Printed exported =
      shardsim({"export", "chakra", folder / "plan.json", "-o", folder / "step", "-q"});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  std::vector<std::string> words = {"replay"};
  for (int rank = 0; rank < 8; ++rank)
    words.push_back(folder / ("step." + std::to_string(rank) + ".et"));
  std::vector<std::string> more = words;
  more.insert(more.end(), {"-q", "-o", folder / "step.program.jsonl"});
  const Printed replayed = shardsim(more);
  INFO(replayed.err);
  REQUIRE(replayed.exit_code == 0);
  const Time step = step_of(exported_plan());
  CHECK(contains(replayed.out, std::to_string(step.picoseconds()) + " ps\n"));
  CHECK(contains(replayed.out, "note: memory is not in a Chakra trace"));
  const Printed again = shardsim({"replay", folder / "step.program.jsonl", "-q"});
  CHECK(contains(again.out, std::to_string(step.picoseconds()) + " ps\n"));
  const Printed two = shardsim({"replay", folder / "step.program.jsonl", folder / "plan.json"});
  CHECK(two.exit_code == 2);
  CHECK(contains(two.err, "E1378"));
}

TEST_CASE("a run with real tensors is exported as it ran, with a note") {
  const TemporaryFolder folder;
  const Printed printed =
      shardsim({"export", "chakra", "scenarios/verify-gpt-tp4.json", "-o", folder / "step", "-q"});
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.err, "dependencies are those that a run shows"));
}

}  // namespace shardsim::test
