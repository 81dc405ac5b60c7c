#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/programs/program_replay.hpp"
#include "sim/programs/program_set.hpp"
#include "sim/programs/rank_records.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/hand_records.hpp"
#include "tests/programs/programs_fixture.hpp"

// Names in records: those of modules, which belong to steps, and those of groups.
namespace shardsim::test {

TEST_CASE("records with modules are merged whatever the order of their rows is") {
  const std::string hole = R"({"hole": {"name": "work", "device_ps": 1000}})"
                           "\n";
  const auto place = [](const std::string& module) {
    return R"({"place": {"module": ")" + module + R"(", "phase": "backward"}})" + "\n";
  };
  const std::string ab = hole + place("a") + place("b");
  const std::string ba = hole + place("b") + place("a");
  const ProgramSet set = merge_records(
      {record_of_rank(4, 0, ab, "h0:0 h0:1 h0"), record_of_rank(4, 2, ba, "h0:1 h0:0 h0")});
  CHECK(set.programs.programs.size() == 1);
  CHECK(difference_of(read_program_file(program_file_of(set), "test.jsonl"), set) == "");
  try {
    [[maybe_unused]] const ProgramSet other =
        merge_records({record_of_rank(4, 0, ab, "h0:0"), record_of_rank(4, 2, ba, "h0:0")});
    FAIL("they do not differ");
  } catch (const Error& error) {
    CHECK(error.code() == "E1386");
    CHECK(contains(error.what(), "of the host in a (backward) and hole work"));
    CHECK(contains(error.what(), "of the host in b (backward)"));
  }
}

TEST_CASE("groups of records have their names where their calls do not fit together") {
  const std::string rows = group_line("left", {0, 1}) + group_line("right", {2, 3});
  const std::string other =
      R"({"call": {"group": "left", "kind": "barrier", "dtype": "int8", "count": 0}})"
      "\n";
  std::vector<TraceFile> files = {record_of_rank(4, 0, rows + reduce_line("left"), "p0:0 w0"),
                                  record_of_rank(4, 1, rows + other, "p0:0 w0")};
  for (const int rank : {2, 3}) {
    files.push_back(record_of_rank(4, rank, rows + reduce_line("right"), "p0:0 w0"));
  }
  try {
    merged_replay(merge_records(files));
    FAIL("it has an end");
  } catch (const Error& error) {
    CHECK(error.code() == "E1379");
    CHECK(contains(error.what(), "calls of group left and 1 like it differ"));
  }
}

TEST_CASE("roots of calls that do something else stand for the roots of other groups") {
  const std::string rows = group_line("a", {0, 1}) + group_line("b", {2, 3});
  const auto broadcast = [](const std::string& group, int root) {
    return fmt::format(R"({{"call": {{"group": "{}", "kind": "broadcast", "dtype": "fp32", )"
                       R"("count": 1000, "root": {}}}}})",
                       group, root) +
           "\n";
  };
  const std::string hole = R"({"hole": {"name": "read", "device_ps": 1000}})"
                           "\n";
  const auto records = [&](const std::string& steps_of_root, int root) {
    return std::vector<TraceFile>{
        record_of_rank(4, 0, rows + broadcast("a", root) + hole, steps_of_root),
        record_of_rank(4, 3, rows + broadcast("b", root) + hole, "p0:0 w0")};
  };
  const ProgramSet set = merge_records(records("h0 p0:0 w0", 0));
  CHECK(set.programs.of_rank == std::vector<int>{0, 1, 0, 1});
  CHECK(has_note(set, "that are roots of calls do something else than those that are not"));
  CHECK(merge_records(records("p0:0 w0", 0)).programs.programs.size() == 1);
  // Roots tell nothing if two ranks that are none differ.
  std::vector<TraceFile> others = records("h0 p0:0 w0", 0);
  others.push_back(record_of_rank(4, 1, rows + broadcast("a", 0) + hole, "h0 p0:0 w0 h0"));
  try {
    [[maybe_unused]] const ProgramSet refused = merge_records(others);
    FAIL("they do not differ");
  } catch (const Error& error) {
    CHECK(error.code() == "E1386");
  }
  // A root of all ranks is one rank: that others do what rank 3 does is not known.
  std::vector<TraceFile> alone = {record_of_rank(4, 0, broadcast("world", 0) + hole, "h0 p0:0 w0"),
                                  record_of_rank(4, 3, broadcast("world", 0) + hole, "p0:0 w0")};
  CHECK_THROWS_AS(merge_records(alone), UsageError);
}

}  // namespace shardsim::test
