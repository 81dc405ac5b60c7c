#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "backends/program/program_tables.hpp"

#include "scenarios/load.hpp"

#include "sim/programs/program_set.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/drawn_scenario.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/property/check_property.hpp"

// The file form of programs: what is written is read again, and what is not well formed is refused
// with its place.
namespace shardsim::test {
namespace {

std::string difference_after_file(const ProgramSet& set) {
  return difference_of(read_program_file(program_file_of(set), "test.jsonl"), set);
}

std::string refusal_of(const std::string& text) {
  try {
    [[maybe_unused]] const ProgramSet set = read_program_file(text, "test.jsonl");
  } catch (const Error& error) {
    CHECK(error.code() == "E1378");
    CHECK_FALSE(error.fix().empty());
    return error.what();
  }
  return "none";
}

// `from` in a good file, which has it once, becomes `to`.
std::string refusal_with(const std::string& from, const std::string& to) {
  std::string text = small_program_file();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return refusal_of(text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("a file has all that was recorded of each shipped verification, as a plan") {
  int compared = 0;
  for_each_verification("file", [&](const std::string& name, Scenario scenario) {
    INFO(name);
    CHECK(difference_after_file(record_programs(compile(std::move(scenario)))) == "");
    ++compared;
  });
  CHECK(compared > 20);
}

TEST_CASE("property: a file has all that was recorded") {
  int compared = 0;
  check_property(40, [&] {
    DrawnScenario drawn = draw_verify_scenario();
    drawn.set_word("execution.tensors", "meta");
    std::optional<ProgramSet> set;
    try {
      set = record_programs(compile(load_scenario_text(drawn.text(), "drawn.json")));
    } catch (const Error&) {
      return;  // Its fields do not fit together, or it cannot be recorded.
    }
    RC_ASSERT(difference_after_file(*set) == "");
    ++compared;
  });
  CHECK(compared >= 20);
}

TEST_CASE("holes, notes and settings are in the file, too") {
  ProgramSet set = read_program_file(small_program_file(), "test.jsonl");
  set.notes = {"no memory", "\"quoted\"\n"};
  set.settings = {.buffered_sends = true,
                  .all_reduce_algorithm = Algorithm::tree,
                  .attention_drops = true,
                  .overlap_is_recorded = true};
  CHECK(difference_after_file(set) == "");
  const ProgramTables& tables = *set.programs.programs.front().tables;
  REQUIRE(tables.num_holes() == 1);
  CHECK(tables.hole(0).device.picoseconds() == 5'000'000);
  CHECK(tables.hole(0).host.picoseconds() == 1'000'000);
}

TEST_CASE("rows of a file may be equal, and steps name them by their place in the file") {
  std::string text = small_program_file("j1 p1:0 w0");
  const std::string row =
      R"({"call": {"group": 1, "kind": "all_reduce", "dtype": "fp32", "count": 1000, "reduction": "sum"}})"
      "\n";
  text.insert(text.find(row), row);  // Call 1 is the same as call 0 now.
  const ProgramSet set = read_program_file(text, "test.jsonl");
  const RankProgram& program = set.programs.programs.front();
  CHECK(program.tables->num_calls() == 2);
  CHECK(describe(program, program.steps[1]) == "post work 0 dp: all_reduce sum fp32 x 1000");
}

TEST_CASE("a program file that is not well formed is refused with its place") {
  CHECK(refusal_of("") == "test.jsonl:0: there is no header");
  CHECK(refusal_of("{}\n") == "test.jsonl:1: the line is no JSON object");
  CHECK(refusal_of("{\"shardsim_program\": 2}\n") ==
        "test.jsonl:1: this is no program file of version 1");
  CHECK(refusal_with("{\"mark\"", "{\"mork\"") == "test.jsonl:7: a line is called \"mork\"");
  CHECK(refusal_with("\"flops\": 1000000000", "\"flops\": -1") == "test.jsonl:2: \"flops\" is -1");
  CHECK(refusal_with("\"flops\": 1000000000", "\"flops\": 1.5") ==
        "test.jsonl:2: \"flops\" is 1.5");
  CHECK(refusal_with("\"flops\": 1000000000", "\"flip\": 1") ==
        "test.jsonl:2: \"flops\" is missing");
  CHECK(refusal_with("\"bytes\": 4096", "\"bytes\": 4096, \"byte\": 1") ==
        "test.jsonl:4: 1 of 3 keys have no meaning here");
  CHECK(refusal_with("\"bf16\"", "\"bf17\"") == "test.jsonl:2: \"dtype\" is \"bf17\"");
  CHECK(refusal_with("\"ranks\": [[0, 2]]", "\"ranks\": [[0, 1]]") ==
        "test.jsonl:10: rank 1 has no program");
  CHECK(refusal_with("\"ranks\": [[0, 2]]", "\"ranks\": [[0, 2], [1, 1]]") ==
        "test.jsonl:9: rank 1 has a program already");
  CHECK(refusal_with("\"ranks\": 2}", "\"ranks\": 2, \"notes\": 1}") ==
        "test.jsonl:1: \"notes\" is 1");
}

TEST_CASE("a program that a replay could not go on with is refused with its step") {
  const auto refusal = [](const std::string& steps) {
    const std::string message = refusal_of(small_program_file(steps));
    const std::string place = "test.jsonl: program of rank 0";
    return message.starts_with(place) ? message.substr(place.size()) : message;
  };
  CHECK(refusal("c0 c1") == "test.jsonl:10: \"c1\" is no step");
  CHECK(refusal("c0 x1") == "test.jsonl:10: \"x1\" is no step");
  CHECK(refusal("c0:0") == "test.jsonl:10: \"c0:0\" is no step");
  CHECK(refusal("c0: h0") == "test.jsonl:10: \"c0:\" is no step");
  CHECK(refusal("j1 p0") == "test.jsonl:10: \"p0\" is no step");
  CHECK(refusal("p0:0 w0") == ", step 0: group 1 is not joined");
  CHECK(refusal("j2") == ", step 0: group 2 is joined before 1");
  CHECK(refusal("j1 p0:0") == ": work 0 is never waited for");
  CHECK(refusal("j1 p0:0 p0:0 w0") == ", step 2: work 0 is not waited for yet");
  CHECK(refusal("j1 p0:9 w9") == ", step 1: work 9 is a high number");
  CHECK(refusal("j1 w0") == ", step 1: work 0 is not there");
  CHECK(refusal("f0") == ", step 0: work 0 is not there");
  CHECK(refusal("j1 p0:0 f0 w0") == ", step 3: a follow has no post behind it");
  CHECK(refusal("a0:0 a0:0") == ", step 1: allocation 0 is not released yet");
  CHECK(refusal("r0") == ", step 0: allocation 0 is not there");
  CHECK(refusal("j1 a0:1 p1:0 w0") == "none");
}

TEST_CASE("groups and calls that do not fit are refused") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return refusal_with(from, to).substr(std::string("test.jsonl: program of rank 0").size());
  };
  const std::string group = R"("size": 2, "axes": [[2, 1]])";
  CHECK(refusal(group, R"("size": 3, "axes": [[2, 1]])") == ": group 1 has places for 2 members");
  CHECK(refusal(group, R"("size": 2, "axes": [[2, 2]])") ==
        ": group 1 leaves its parent of 2 ranks where rank 0 has the program");
  CHECK(refusal(group, R"("size": 1, "base": 0, "step": -1, "axes": [[2, 1]])") ==
        ": rank 1 is no member of its group 1");
  CHECK(refusal(group, R"("size": 2, "parent": 1, "axes": [[2, 1]])") == ": group 1 has parent 1");
  CHECK(refusal(group, R"("size": 2, "axes": [[2, 1], [2, 1]])") == ": axes of group 1 overlap");
  CHECK(refusal("\"reduction\": \"sum\"", "\"reduction\": \"sum\", \"root\": 0") ==
        ", step 5: root 0 of 2 members");
  CHECK(refusal("\"reduction\": \"sum\"", "\"reduction\": \"sum\", \"counts\": [500, 500]") ==
        ", step 5: the collective has no chunks");
  CHECK(refusal("\"reduction\": \"sum\"", "\"reduction\": \"sum\", \"padding\": 1001") ==
        ", step 5: \"padding\" does not fit");
  CHECK(
      refusal(
          "\"kind\": \"all_reduce\", \"dtype\": \"fp32\", \"count\": 1000, \"reduction\": \"sum\"",
          "\"kind\": \"all_gather\", \"dtype\": \"fp32\", \"count\": 1001") ==
      ", step 5: 1001 elements have no 2 equal chunks");
  CHECK(
      refusal(
          "\"kind\": \"all_reduce\", \"dtype\": \"fp32\", \"count\": 1000, \"reduction\": \"sum\"",
          "\"kind\": \"all_to_all\", \"dtype\": \"fp32\", \"count\": 0") ==
      ", step 5: \"send_counts\" has 0 numbers for 2 members");
  CHECK(
      refusal(
          "\"kind\": \"all_reduce\", \"dtype\": \"fp32\", \"count\": 1000, \"reduction\": \"sum\"",
          "\"kind\": \"send\", \"dtype\": \"fp32\", \"count\": 1, \"messages\": "
          "[{\"to\": 0, \"dtype\": \"fp32\", \"count\": 1}]") ==
      ", step 5: rank 0 is its own peer");
}

}  // namespace shardsim::test
