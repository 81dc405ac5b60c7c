#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_csv.hpp"
#include "strategies/pipeline/schedule_text.hpp"
#include "strategies/pipeline/validate.hpp"

#include "tests/strategies/pipeline_fixture.hpp"

// Schedules as files of PyTorch's pipelining.
namespace shardsim::test {

namespace {

PipelineSchedule parsed(const std::string& text) {
  const ScheduleCsv csv = parse_schedule_csv(text, "own.csv");
  for (const CsvProblem& problem : csv.problems) FAIL_CHECK(problem.line << ": " << problem.what);
  REQUIRE(csv.problems.empty());
  return csv.schedule;
}

// "2:3 (text of the cell) what" of every problem.
std::vector<std::string> problems_in(const std::string& text) {
  std::vector<std::string> found;
  for (const CsvProblem& problem : parse_schedule_csv(text, "own.csv").problems) {
    CHECK_FALSE(problem.fix.empty());
    found.push_back(std::to_string(problem.line) + ":" + std::to_string(problem.cell) + " (" +
                    text.substr(problem.offset, problem.length) + ") " + problem.what);
  }
  return found;
}

using Found = std::vector<std::string>;

}  // namespace

TEST_CASE("every schedule is written as a file that reads back equal, lowered or not") {
  for_each_schedule([](const PipelineSchedule& schedule) {
    // Where a rank has one chunk, or there is one rank, both placements are the same.
    for (const PipelineSchedule& written : {schedule, lower(schedule)}) {
      const std::string text = to_csv(written);
      const ScheduleCsv read = parse_schedule_csv(text, "own.csv");
      INFO(text);
      REQUIRE(read.problems.empty());
      REQUIRE(read.schedule.shape == written.shape);
      REQUIRE(read.schedule.actions == written.actions);
      const bool is_flat = written.shape.num_ranks == 1 || written.shape.num_chunks == 1;
      REQUIRE((is_flat || read.schedule.placement == written.placement));
      REQUIRE(to_csv(read.schedule) == text);
      REQUIRE(validate(read.schedule).empty());
    }
  });
}

TEST_CASE("a file is read as PyTorch writes it") {
  // Blocks, empty cells, blanks and the line ends of Python's csv module.
  const std::string text =
      "0F0, 0F1 ,,(0F2;0B0)OVERLAP_F_B,0B1,0B2,\r\n,1F0,1B0,1F1,1B1,1F2,1I2,1W2\r\n\r\n";
  const PipelineSchedule schedule = parsed(text);
  CHECK(to_text(schedule) ==
        "schedule own.csv: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0  0F1  0F2& 0B0  0B1  0B2\n"
        "rank 1: 1F0  1B0  1F1  1B1  1F2  1I2  1W2\n");
  CHECK(validate(schedule).empty());
  CHECK(schedule.source->cells ==
        std::vector<std::vector<int>>{{1, 2, 4, 4, 5, 6}, {2, 3, 4, 5, 6, 7, 8}});
  // DualPipeV on two ranks, as its blocks are written.
  CHECK(to_csv(make_schedule("dualpipe_v", {2, 2, 4})).find("(0F3;3B1)OVERLAP_F_B,") !=
        std::string::npos);
  CHECK(to_csv(lower(make_schedule("1f1b", {2, 1, 1}))) ==
        "0RECV_B0,0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
}

TEST_CASE("cells of sharded parameters are counted and left out") {
  const ScheduleCsv csv = parse_schedule_csv(
      "0UNSHARD,0F0,0F1,0B0,0B1,0REDUCE_GRAD,0RESHARD\n1F0,1B0,1F1,1B1\n", "own.csv");
  REQUIRE(csv.problems.empty());
  CHECK(csv.num_left_out == 3);
  CHECK(to_csv(csv.schedule) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  // Cells keep the numbers that they have in the file.
  CHECK(csv.schedule.source->cells[0] == std::vector<int>{2, 3, 4, 5});
}

TEST_CASE("a file has as many sends in flight as its order needs, as schedules of ours have") {
  for (const std::string_view name : schedule_names()) {
    for (const int ranks : {2, 3, 5}) {
      const int chunks = std::min(2, schedule_row(name).max_chunks);
      const PipelineSchedule schedule = make_schedule(name, {ranks, chunks, 30});
      INFO(to_text(schedule));
      CHECK(parsed(to_csv(schedule)).sends_in_flight == schedule.sends_in_flight);
      CHECK(parsed(to_csv(lower(schedule))).sends_in_flight == schedule.sends_in_flight);
    }
  }
  // A file that can run with no sends in flight gets all, so that their number is not blamed.
  CHECK(parsed("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n").sends_in_flight == 2);
  CHECK(parsed("0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1F1,1B0,1B1,1F2,1B2\n").sends_in_flight == 3);
}

TEST_CASE("a cell that is no action is named by line and cell") {
  const std::string no_action = "is no action";
  CHECK(problems_in("0F0,0Q1,0B0\n1F0,1B0\n") == Found{"1:2 (0Q1) " + no_action});
  CHECK(problems_in("0F0,0B0\n1F0,,F1,1B\n") ==
        Found{"2:3 (F1) " + no_action, "2:4 (1B) " + no_action});
  CHECK(problems_in("0F0,0f1\n") == Found{"1:2 (0f1) " + no_action});
  CHECK(problems_in("0F99999999999\n") == Found{"1:1 (0F99999999999) " + no_action});
  CHECK(problems_in("-1F0\n") == Found{"1:1 (-1F0) " + no_action});
  CHECK(problems_in("0F0 0B0\n") == Found{"1:1 (0F0 0B0) " + no_action});
  CHECK(problems_in("(0F0;0B1\n") == Found{"1:1 ((0F0;0B1) " + no_action});
  CHECK(problems_in("(0F0;0B1)\n") == Found{"1:1 ((0F0;0B1)) " + no_action});
  CHECK(problems_in("(0F0)OVERLAP_F_B\n") == Found{"1:1 ((0F0)OVERLAP_F_B) " + no_action});
  CHECK(problems_in("(0B0;0F1)OVERLAP_F_B\n") ==
        Found{"1:1 ((0B0;0F1)OVERLAP_F_B) is no forward and whole backward that overlap"});
  CHECK(problems_in("0F0,0BW0\n") == Found{"1:2 (0BW0) is the old name of a whole backward"});
  CHECK(problems_in("0F0,0B0\n,,\n1F0,1B0\n") == Found{"2:0 (,,) rank 1 has nothing to do"});
  CHECK(problems_in("").size() == 1);
  CHECK(problems_in("0UNSHARD\n") == Found{"1:0 (0UNSHARD) the file has no action"});
}

TEST_CASE("cells that changed places between rows are named, and no others") {
  // The first cell of one row and the last of the other: what stands first decides nothing.
  CHECK(problems_in("1B1,0F1,0B0,0B1\n1F0,1B0,1F1,0F0\n") ==
        Found{"1:1 (1B1) is of stage 1, which rank 1 has (line 2)",
              "2:4 (0F0) is of stage 0, which rank 0 has (line 1)"});
}

TEST_CASE("stages that fit no placement are named") {
  CHECK(problems_in("0F0,0B0\n1F0,1B0,0F0\n") ==
        Found{"2:3 (0F0) is of stage 0, which rank 0 has (line 1)"});
  CHECK(problems_in("0F0,0B0\n2F0,2B0\n") == Found{"1:0 (0F0,0B0) stage 1 of 3 is on no rank"});
  CHECK(problems_in("0F0,0B0,1F0,1B0\n2F0,2B0\n") ==
        Found{"1:0 (0F0,0B0,1F0,1B0) 3 stages cannot be as many on each of 2 ranks"});
  // The second rank has stages 1 and 0 interchanged with the first.
  CHECK(problems_in("1F0,1B0\n0F0,0B0\n") ==
        Found{"2:1 (0F0) places stage 0 on rank 1, neither around the ranks, on 0, nor down and "
              "up, on 0"});
  CHECK(problems_in("0F0,0B0,1F0,1B0\n2F0,2B0,3F0,3B0\n") ==
        Found{"1:3 (1F0) places stage 1 on rank 0, neither around the ranks, on 1, nor down and "
              "up, on 1"});
  CHECK(problems_in("16777216F0\n").size() == 1);
  CHECK(problems_in("0F16777216\n").size() == 1);
  CHECK(problems_in("0F2147483647,2147483647B0\n").size() == 1);
}

TEST_CASE("what is wrong with a schedule from a file is said with the file's lines and cells") {
  // Rank 1, line 2: B0 before F0. An empty cell stands before them.
  const PipelineSchedule swapped = parsed("0F0,0F1,0B0,0B1\n,1B0,1F0,1F1,1B1\n");
  const std::vector<ScheduleProblem> problems = validate(swapped);
  REQUIRE(problems.size() == 1);
  const std::string text = explain(swapped, problems.front());
  INFO(text);
  CHECK(text.rfind("own.csv:2, cell 2: the pipeline schedule is wrong at rank 1: 1B0 comes before "
                   "1F0 (cell 3)\n",
                   0) == 0);
  // A cycle, of cells of a file.
  const PipelineSchedule cycle = parsed("0F0,,0B0,0F1,0B1\n1F0,1F1,,1B0,1B1\n");
  const std::vector<ScheduleProblem> found = validate(cycle);
  REQUIRE(found.size() == 1);
  CHECK(found.front().cycle ==
        std::vector<std::string>{"rank 0, cell 3 (0B0) waits for rank 1, cell 4 (1B0)",
                                 "rank 1, cell 2 (1F1) waits for rank 0, cell 4 (0F1)"});
}

}  // namespace shardsim::test
