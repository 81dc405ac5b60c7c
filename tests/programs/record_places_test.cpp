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

TEST_CASE("groups with the same members are told apart by when they were formed") {
  const std::string rows = group_line("97", {0, 1}) + group_line("98", {0, 1}) +
                           group_line("99", {2, 3}) + group_line("100", {2, 3});
  const ProgramSet set = merge_records({record_of_rank(4, 0, rows + reduce_line("97"), "p0:0 w0"),
                                        record_of_rank(4, 2, rows + reduce_line("99"), "p0:0 w0")});
  CHECK(set.programs.programs.size() == 1);
}

namespace {

// Eight ranks, of which each two neighbours are a group with a root.
class GroupsWithRoots {
 public:
  explicit GroupsWithRoots(int root) : root_(root) {}

  // Steps: h0 reads, h1 writes a log, p0:0 gets what the root sends.
  GroupsWithRoots& add(int rank, const std::string& steps) {
    const std::string group = fmt::format("g{}", rank / 2);
    std::string rows;
    for (int i = 0; i < 4; ++i) rows += group_line(fmt::format("g{}", i), {2 * i, 2 * i + 1});
    rows += fmt::format(R"({{"call": {{"group": "{}", "kind": "broadcast", "dtype": "fp32", )"
                        R"("count": 1000, "root": {}}}}})",
                        group, root_) +
            "\n";
    for (const char* name : {"read", "log"}) {
      rows += fmt::format(R"({{"hole": {{"name": "{}", "device_ps": 1000}}}})", name) + "\n";
    }
    for (const char* kind : {"step_begins", "step_ends"}) {
      rows += fmt::format(R"({{"mark": {{"kind": "{}", "step": 0}}}})", kind) + "\n";
    }
    files_.push_back(record_of_rank(8, rank, rows, steps));
    return *this;
  }
  [[nodiscard]] ProgramSet merged() const { return merge_records(files_); }
  [[nodiscard]] std::vector<int> programs() const { return merged().programs.of_rank; }

 private:
  int root_;
  std::vector<TraceFile> files_;
};

constexpr const char* kRootsNote = "that are roots of calls do something else than those that are";

}  // namespace

TEST_CASE("roots of calls that do something else stand for the roots of other groups") {
  const ProgramSet set = GroupsWithRoots(0)
                             .add(0, "h0 p0:0 w0")
                             .add(4, "h0 p0:0 w0")
                             .add(5, "p0:0 w0")
                             .add(7, "p0:0 w0")
                             .merged();
  CHECK(set.programs.of_rank == std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(has_note(set, kRootsNote));
  // One record of those that are no roots is no evidence.
  CHECK(GroupsWithRoots(0).add(0, "h0 p0:0 w0").add(2, "h0 p0:0 w0").add(7, "p0:0 w0").programs() ==
        std::vector<int>{0, 0, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("a rank that alone does something else is not taken for all roots") {
  const ProgramSet set = GroupsWithRoots(0)
                             .add(0, "h1 p0:0 w0")
                             .add(3, "p0:0 w0")
                             .add(5, "p0:0 w0")
                             .add(7, "p0:0 w0")
                             .merged();
  CHECK(set.programs.of_rank == std::vector<int>{0, 1, 1, 1, 1, 1, 1, 1});
  CHECK(has_note(set, "rank 0 does something else than most in the same places"));
  CHECK(!has_note(set, kRootsNote));
  // A second root that does not: it is not the root that writes a log.
  CHECK(GroupsWithRoots(0).add(0, "h1 p0:0 w0").add(2, "p0:0 w0").add(7, "p0:0 w0").programs() ==
        std::vector<int>{0, 1, 1, 1, 1, 1, 1, 1});
  // Two ranks cannot tell: it may be the root that reads, or rank 0 that writes a log.
  const std::string error = merge_error_of(
      "E1386", [] { return GroupsWithRoots(0).add(0, "h0 p0:0 w0").add(7, "p0:0 w0").merged(); });
  CHECK(contains(error, "record more ranks"));
}

TEST_CASE("a rank that logs stands for itself beside roots that read") {
  const ProgramSet set = GroupsWithRoots(0)
                             .add(0, "h0 h1 p0:0 w0")
                             .add(2, "h0 p0:0 w0")
                             .add(4, "h0 p0:0 w0")
                             .add(1, "p0:0 w0")
                             .add(3, "p0:0 w0")
                             .add(7, "h1 p0:0 w0")
                             .merged();
  const std::vector<int>& of_rank = set.programs.of_rank;
  CHECK(of_rank == std::vector<int>{0, 1, 2, 1, 2, 1, 2, 3});
  CHECK(has_note(set, kRootsNote));
  CHECK(has_note(set, "rank 0 does something else than most in the same places"));
  CHECK(has_note(set, "rank 7 does something else than most in the same places"));
}

TEST_CASE("roots tell nothing if ranks with equal roots differ") {
  GroupsWithRoots groups(0);
  groups.add(0, "h0 p0:0 w0").add(2, "h0 p0:0 w0").add(5, "p0:0 w0").add(7, "h1 p0:0 w0");
  CHECK(contains(merge_error_of("E1386", [&] { return groups.merged(); }), "record more ranks"));
}

TEST_CASE("roots of calls before the last step are no roots") {
  const std::string once = "p0:0 w0 m0 m1";
  const auto with_roots = [&](const std::string& of_roots) {
    return GroupsWithRoots(0).add(0, of_roots).add(2, of_roots).add(5, once).add(7, once);
  };
  // They send parameters, and what they do else has another reason, which is not known.
  CHECK(contains(merge_error_of("E1386", [&] { return with_roots("p0:0 w0 m0 h0 m1").merged(); }),
                 "record more ranks"));
}

TEST_CASE("roots without a record do what most do") {
  // Roots of pairs read. Those of even or odd ranks are others, and not all of them are recorded.
  const auto read = [](int rank, const std::string& steps) {
    const std::string rows = group_line("a", {0, 1}) + group_line("b", {2, 3}) +
                             group_line("c", {4, 5}) + group_line("d", {6, 7}) +
                             group_line("even", {0, 2, 4, 6}) + group_line("odd", {1, 3, 5, 7});
    const auto broadcast = [](const std::string& group) {
      return fmt::format(R"({{"call": {{"group": "{}", "kind": "broadcast", "dtype": "fp32", )"
                         R"("count": 1000, "root": 0}}}})",
                         group) +
             "\n";
    };
    const std::string hole = R"({"hole": {"name": "read", "device_ps": 1000}})"
                             "\n";
    return record_of_rank(8, rank,
                          rows + broadcast(std::string(1, static_cast<char>('a' + rank / 2))) +
                              broadcast(rank % 2 == 0 ? "even" : "odd") + hole,
                          steps);
  };
  const std::string all = "p0:0 w0 p1:0 w0";
  // Rank 1, the root of odd ranks alone, has no record.
  const ProgramSet set = merge_records(
      {read(2, "h0 " + all), read(4, "h0 " + all), read(3, all), read(5, all), read(7, all)});
  CHECK(has_note(set, kRootsNote));
  const std::vector<int>& of_rank = set.programs.of_rank;
  CHECK(of_rank[6] == of_rank[2]);
  CHECK(of_rank[2] != of_rank[3]);
  CHECK(of_rank[1] == of_rank[3]);
  CHECK(of_rank[0] == of_rank[3]);
}

}  // namespace shardsim::test
