#include "sim/accuracy/nccl_tests_table.hpp"

#include <sstream>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"

#include "tests/calibration/calibrate_fixture.hpp"

namespace shardsim::test {
namespace {

constexpr const char* kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
    "time   algbw   busbw #wrong\n";
constexpr const char* kRow =
    "     1048576         32768     float    none      -1    58.14   18.04   15.78      0    "
    "57.87   18.12   15.85    N/A\n";

std::vector<NcclTestsTable> parse(const std::string& text) {
  return parse_nccl_tests(text, "log.txt");
}

NcclTestsTable only(const std::string& text) {
  std::vector<NcclTestsTable> tables = parse(text);
  REQUIRE(tables.size() == 1);
  return tables.front();
}

// "E0941 line 3" of a text that is refused.
std::string refusal(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const ScenarioError& error) {
    const Problem& problem = error.problems().front();
    CHECK_FALSE(problem.help.empty());
    CHECK(problem.file == "log.txt");
    return problem.code + " line " + std::to_string(problem.line);
  }
  return "read";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a published table is read with the noise of its launcher around it") {
  std::istringstream no_input;
  const std::vector<NcclTestsTable> tables = read_nccl_tests(kA100, no_input);
  REQUIRE(tables.size() == 1);
  const NcclTestsTable& table = tables.front();
  CHECK(table.ranks == 16);
  CHECK(table.nodes == 2);
  CHECK(table.highest_rank == 15);
  CHECK(table.gpu == "NVIDIA A100-SXM4-40GB");
  CHECK_FALSE(table.operation.has_value());  // Releases before 2.17 do not print it.
  CHECK(table.reduction == "sum");
  CHECK(table.root == -1);
  CHECK(table.complete);
  REQUIRE(table.rows.size() == 31);
  CHECK(table.rows.front().size == 8);
  CHECK(table.rows.front().time_us == (36.47 + 34.74) / 2);
  CHECK(table.rows.front().bus_share == 0);  // 0.00 / 0.00
  CHECK(table.rows.back().size == 8589934592);
  CHECK(table.rows.back().time_us == (67689.0 + 67811.0) / 2);
  CHECK(table.rows.back().bus_share == Approx(1.875).epsilon(1e-4));
}

TEST_CASE("a table without ranks says its operation, and standard input is read") {
  std::istringstream input(content_of(kB200));
  const std::vector<NcclTestsTable> tables = read_nccl_tests("-", input);
  REQUIRE(tables.size() == 1);
  CHECK(tables.front().operation == TestedOperation::all_reduce);
  CHECK(tables.front().ranks == 0);
  CHECK(tables.front().nodes == 0);
  CHECK(tables.front().rows.size() == 29);
  CHECK(tables.front().source->name == "standard input");
}

TEST_CASE("a launcher may put its mark before every line") {
  for (const std::string mark : {"[1,0]<stdout>:", "[0] ", "  0: "}) {
    std::string text;
    std::istringstream lines(std::string("#  Rank  0 Group  0 Pid 1 on a device 0 [0x01] NVIDIA "
                                         "H100\n#  Rank  1 Group  0 Pid 2 on b device 0 [0x01] "
                                         "NVIDIA H100\n") +
                             kHeader + kRow + "# Avg bus bandwidth    : 15.8\n");
    for (std::string line; std::getline(lines, line);) text += mark + line + "\n";
    const NcclTestsTable table = only(text);
    CHECK(table.ranks == 2);
    CHECK(table.nodes == 2);
    CHECK(table.complete);
    CHECK(table.rows.front().time_us == (58.14 + 57.87) / 2);
  }
}

TEST_CASE("several runs in one file are several tables") {
  const std::string run =
      std::string("+ mpirun -x NCCL_ALGO=Ring ./build/all_gather_perf -b 1M\n") +
      "# nThread 1 nGpus 1\n#  Rank  0 Group  0 Pid 1 on a device 0 [0x01] H\n" + kHeader + kRow +
      "# Avg bus bandwidth    : 15.8\n";
  const std::string next = std::string("# nccl-tests version 2.17.6\n") +
                           "# Collective test starting: alltoall_perf\n# nThread 1 nGpus 1\n" +
                           kHeader + kRow + kRow;
  const std::vector<NcclTestsTable> tables = parse(run + next);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].operation == TestedOperation::all_gather);
  CHECK(tables[0].variables == "NCCL_ALGO=Ring");
  CHECK(tables[0].ranks == 1);
  CHECK(tables[0].complete);
  CHECK(tables[1].operation == TestedOperation::all_to_all);
  CHECK(tables[1].variables.empty());
  CHECK(tables[1].ranks == 0);
  CHECK(tables[1].rows.size() == 2);
  CHECK_FALSE(tables[1].complete);
}

TEST_CASE("ranks of a run that died do not count for the next") {
  const std::string rank = "Group  0 Pid 1 on a device 0 [0x01] H\n";
  const std::vector<NcclTestsTable> tables = parse(
      "# nThread 1 nGpus 1\n#  Rank  0 " + rank + "#  Rank  1 " + rank + kHeader + kRow +
      "# nThread 1 nGpus 1\n#  Rank  0 Group  0 Pid 1 on b device 0 [0x01] H\n" + kHeader + kRow);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].ranks == 2);
  CHECK(tables[1].ranks == 1);
  CHECK(tables[1].nodes == 1);
}

TEST_CASE("the name of a run that died does not count for the next") {
  const std::string begin =
      "# nThread 1 nGpus 1\n#  Rank  0 Group  0 Pid 1 on a device 0 [0x01] H\n";
  const std::string died =
      "+ NCCL_ALGO=Ring ./all_gather_perf\n# Collective test starting: all_gather_perf\n" + begin +
      "a: Test NCCL failure all_gather.cu:44 'unhandled system error'\n";
  const NcclTestsTable unnamed = only(died + begin + kHeader + kRow);
  CHECK_FALSE(unnamed.operation.has_value());
  CHECK(unnamed.variables.empty());
  const NcclTestsTable named =
      only(died + "+ NCCL_PROTO=LL ./alltoall_perf\n" + begin + kHeader + kRow);
  CHECK(named.operation == TestedOperation::all_to_all);
  CHECK(named.variables == "NCCL_PROTO=LL");
  // Also where rows were there already.
  const std::vector<NcclTestsTable> tables = parse(died + kHeader + kRow + begin + kHeader + kRow);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].operation == TestedOperation::all_gather);
  CHECK(tables[0].variables == "NCCL_ALGO=Ring");
  CHECK_FALSE(tables[1].operation.has_value());
}

TEST_CASE("tables of old releases have no root, and an error instead of what was wrong") {
  const NcclTestsTable table = only(
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw "
      "  busbw  error\n"
      "     1048576        262144   float     sum    58.14   18.04   33.82  5e-07    57.87   18.12 "
      " "
      " 33.97  5e-07\n");
  CHECK_FALSE(table.root.has_value());
  CHECK(table.reduction == "sum");
  CHECK(table.rows.front().time_us == (58.14 + 57.87) / 2);
}

TEST_CASE("a place that was not measured is left out, and rows of 0 bytes are") {
  const std::string out_only = replaced(kRow, "57.87   18.12   15.85", "N/A N/A N/A");
  CHECK(only(kHeader + out_only).rows.front().time_us == 58.14);
  const NcclTestsTable table =
      only(kHeader +
           std::string("  0  0  float  none  -1  0.20 0.00 0.00 0  0.18 0.00 0.00 N/A\n") + kRow);
  CHECK(table.num_empty == 1);
  CHECK(table.rows.size() == 1);
  CHECK(refusal(std::string(kHeader) + "0 0 float none -1 0.2 0.0 0.0 0 0.2 0.0 0.0 0\n") ==
        "E0940 line 1");
}

TEST_CASE("what is no table, or a wrong one, is refused with its line") {
  const std::string head = std::string("noise\n") + kHeader;
  CHECK(refusal("") == "E0940 line 1");
  CHECK(refusal("{\"not\": \"a table\"}\n") == "E0940 line 1");
  CHECK(refusal(head) == "E0940 line 2");
  CHECK(refusal(head + kRow) == "read");
  // Cut off, within a row and within its first number.
  CHECK(refusal(head + kRow + "     2097152         65536     float") == "E0941 line 4");
  CHECK(refusal(head + kRow + "     20971") == "E0941 line 4");
  // NCCL's log in the middle of a row.
  CHECK(refusal(head + "  1048576  32768  float  none  -1host:12:34 [0] NCCL INFO x\n") ==
        "E0941 line 3");
  CHECK(refusal(head + replaced(kRow, "58.14", "58.1x")) == "E0941 line 3");
  CHECK(refusal(head + replaced(kRow, "58.14", "0.00")) == "E0941 line 3");
  CHECK(refusal(head + replaced(kRow, "58.14", "nan")) == "E0941 line 3");
  CHECK(refusal(head + replaced(replaced(kRow, "58.14", "N/A"), "57.87", "N/A")) == "E0941 line 3");
  CHECK(refusal(replaced(head, "redop", "reduc") + kRow) == "E0941 line 2");
  CHECK(refusal(replaced(head, "busbw", "bus_bw") + kRow) == "read");  // In place is still there.
  CHECK(refusal(head + kRow + replaced(kRow, "15.78      0", "15.78      2")) == "E0942 line 4");
  // Milliseconds; a column too early.
  CHECK(refusal(head + replaced(kRow, "58.14", "0.05814")) == "E0943 line 3");
  CHECK(refusal(head + replaced(kRow, "none", "prod")) == "E0944 line 3");
  CHECK(refusal(head + replaced(kRow, "float", "f8e4m3")) == "E0944 line 3");
  CHECK(refusal("#  Rank  0 Group  1 Pid 1 on a device 0 [0x01] H\n" + head + kRow) ==
        "E0945 line 1");
  CHECK(refusal("# shardsim collective all_reduce on nccl: 2 ranks\n" + head + kRow) ==
        "E0950 line 1");
}

}  // namespace shardsim::test
