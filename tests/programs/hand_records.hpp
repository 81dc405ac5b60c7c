#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/programs/program_replay.hpp"
#include "sim/programs/rank_records.hpp"
#include "tests/backends/fiber_fixture.hpp"

// Records of single ranks, line by line.
namespace shardsim::test {

inline std::string group_line(const std::string& name, const std::vector<int>& members) {
  return fmt::format(R"({{"group": {{"name": "{}", "members": [{}]}}}})", name,
                     fmt::join(members, ", ")) +
         "\n";
}

inline std::string reduce_line(const std::string& name) {
  return R"({"call": {"group": ")" + name +
         R"(", "kind": "all_reduce", "dtype": "fp32", "count": 1000, "reduction": "sum"}})" + "\n";
}

inline TraceFile record_of_rank(int ranks, int rank, const std::string& rows,
                                const std::string& steps) {
  return {0, fmt::format("rank{}.jsonl", rank),
          fmt::format(R"({{"shardsim_program": 1, "name": "hand", "ranks": {}, "recorded": {}}})",
                      ranks, rank) +
              "\n" + rows + fmt::format(R"({{"program": {{"rank": {}}}}})", rank) + "\n" +
              fmt::format(R"({{"steps": "{}"}})", steps) + "\n"};
}

inline ProgramReplay merged_replay(const ProgramSet& set) {
  return replay_programs_on(
      set, {.cluster = test_cluster(static_cast<int>(set.programs.of_rank.size()))});
}

// Records that cannot be merged: the error and its help.
template <class Make>
std::string merge_error_of(const std::string& code, const Make& make) {
  try {
    [[maybe_unused]] const ProgramSet set = make();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return std::string(error.what()) + " | " + error.fix();
  }
  return "none";
}

}  // namespace shardsim::test
