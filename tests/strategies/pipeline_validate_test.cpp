#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/diagnosis.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_text.hpp"
#include "strategies/pipeline/timeline.hpp"
#include "strategies/pipeline/validate.hpp"

#include "tests/strategies/pipeline_fixture.hpp"

// Mistakes in a schedule are told with their row and cell.
namespace shardsim::test {

namespace {

// Two ranks, two microbatches.
PipelineSchedule rows(const std::string& first, const std::string& second) {
  return parse_schedule_text(
      "schedule mine: 2 ranks, 1 chunks, 2 microbatches, loop placement, 2 sends in flight\n"
      "rank 0: " +
      first + "\nrank 1: " + second + "\n");
}

// "rank.cell what", one problem per line.
std::string problems(const PipelineSchedule& schedule) {
  std::string text;
  for (const ScheduleProblem& problem : validate(schedule)) {
    text += std::to_string(problem.rank) + "." + std::to_string(problem.cell) + " " + problem.what +
            "\n";
    for (const std::string& link : problem.cycle) text += "  " + link + "\n";
  }
  return text;
}

constexpr const char* kGoodRow0 = "0F0 0F1 0B0 0B1";
constexpr const char* kGoodRow1 = "1F0 1B0 1F1 1B1";

std::string first_explanation(const PipelineSchedule& schedule) {
  const auto found = validate(schedule);
  return found.empty() ? std::string() : explain(schedule, found.front());
}

PipelineSchedule with_swap(PipelineSchedule schedule, int rank, int cell, int other) {
  std::vector<Action>& cells = schedule.actions[static_cast<std::size_t>(rank)];
  std::swap(cells[static_cast<std::size_t>(cell)], cells[static_cast<std::size_t>(other)]);
  return schedule;
}

}  // namespace

TEST_CASE("P36: every schedule is valid in every shape, and so is what is run of it") {
  int count = 0;
  for_each_schedule([&](const PipelineSchedule& schedule) {
    INFO(to_text(schedule));
    REQUIRE(problems(schedule).empty());
    REQUIRE(problems(lower(schedule)).empty());
    ++count;
  });
  // p 1..8 with M 1..32: three schedules of one chunk; looped BFS with V 1..4; interleaved for the
  // 32 + 16 + 10 + 8 + 6 + 5 + 4 + 4 multiples of p, and so combined; zb_h2, zb_v, v_half and v_min
  // from 2p-1 on, dualpipe_v from 2p on.
  CHECK(count == 3 * 8 * 32 + 4 * 8 * 32 + 2 * 4 * 85 + 4 * 200 + 192);
}

TEST_CASE("a mark that no block of a forward and a backward follows is found") {
  const std::string header =
      "schedule mine: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n";
  const std::string good = "rank 1: 1F0 1B0 1F1 1B1 1F2 1B2\n";
  const auto found = [&](const std::string& row) {
    const auto all = validate(parse_schedule_text(header + "rank 0: " + row + "\n" + good));
    return all.empty() ? std::string("none") : std::to_string(all[0].cell) + ": " + all[0].what;
  };
  const std::string rule = ": a forward overlaps with a whole backward of another microbatch";
  CHECK(found("0F0 0F1 0F2& 0B0 0B1 0B2") == "none");
  CHECK(found("0F0 0F1 0F2& 0I0 0W0 0B1 0B2") == "2: 0F2& cannot overlap with 0I0" + rule);
  CHECK(found("0F0& 0F1 0F2 0B0 0B1 0B2") == "0: 0F0& cannot overlap with 0F1" + rule);
  CHECK(found("0F0 0F1 0F2 0B0& 0B1 0B2") == "3: 0B0& cannot overlap with 0B1" + rule);
  CHECK(found("0F0 0F1 0F2 0B0 0B1 0B2&") ==
        "5: 0B2& cannot overlap with the end of the row" + rule);
  CHECK(found("0F0& 0B0 0F1 0F2 0B1 0B2") == "0: 0F0& cannot overlap with 0B0" + rule);
  // The other half of the block is what is waited for: rank 1 gives B1 after F2 only.
  const auto cycle = validate(parse_schedule_text(
      header + "rank 0: 0F0 0F1 0F2& 0B1 0B0 0B2\nrank 1: 1F0 1B0 1F1 1F2 1B1 1B2\n"));
  REQUIRE(cycle.size() == 1);
  CHECK(cycle[0].cycle.front() == "rank 0, cell 2 (0F2&) waits for rank 1, cell 4 (1B1)");
}

TEST_CASE("a good schedule has no problem") {
  CHECK(problems(rows(kGoodRow0, kGoodRow1)).empty());
  CHECK_NOTHROW(require_valid(rows(kGoodRow0, kGoodRow1)));
}

TEST_CASE("what is missing, twice, unknown or done by another is found") {
  CHECK(problems(rows("0F0 0F1 0B0", kGoodRow1)) == "0.1 0B1 is missing (or 0I1 and 0W1)\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1B0 1B1")) == "1.2 1F1 is missing\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1B0")) ==
        "1.2 1F1 is missing\n"
        "1.2 1B1 is missing (or 1I1 and 1W1)\n");
  CHECK(problems(rows("0F0 0F1 0B0 0F0 0B1", kGoodRow1)) ==
        "0.3 0F0 comes twice, first (cell 0)\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1B0 1F1 1B1 1F2")) ==
        "1.4 1F2 does not exist: the rank has 1 chunks and there are 2 microbatches\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1B0 3F0 1F1 1B1")) ==
        "1.2 3F0 does not exist: the rank has 1 chunks and there are 2 microbatches\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1B0 1W0 1F1 1B1")) ==
        "1.2 1W0 is done already by 1B0 (cell 1)\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1I0 1F1 1B1")) == "1.1 1W0 is missing\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1W0 1F1 1B1")) == "1.0 1B0 is missing (or 1I0 and 1W0)\n");
  PipelineSchedule negative = rows(kGoodRow0, kGoodRow1);
  negative.actions[1].push_back(make_action(ActionKind::forward, -1, 0));
  negative.actions[1].push_back(make_action(ActionKind::forward, 0, -1));
  CHECK(validate(negative).size() == 2);
}

TEST_CASE("what comes too early on its rank is found") {
  CHECK(problems(rows(kGoodRow0, "1B0 1F0 1F1 1B1")) == "1.0 1B0 comes before 1F0 (cell 1)\n");
  CHECK(problems(rows(kGoodRow0, "1F0 1W0 1I0 1F1 1B1")) == "1.1 1W0 comes before 1I0 (cell 2)\n");
  CHECK(problems(with_swap(make_schedule("looped_bfs", {1, 2, 2}), 0, 0, 2)) ==
        "0.0 1F0 comes before 0F0 (cell 2)\n");
  CHECK(problems(with_swap(make_schedule("looped_bfs", {1, 2, 2}), 0, 5, 7)) ==
        "0.5 0B1 comes before 1B1 (cell 7)\n");
}

TEST_CASE("rows that do not fit the shape are found") {
  PipelineSchedule schedule = rows(kGoodRow0, kGoodRow1);
  schedule.actions.pop_back();
  CHECK(problems(schedule) == "0.0 there are 1 rows for 2 ranks, 1 chunks and 2 microbatches\n");
  CHECK(!explain(schedule, validate(schedule).front()).empty());
  schedule.shape.num_microbatches = 1 << 30;
  CHECK(problems(schedule) ==
        "0.0 2 ranks, 1 chunks and 1073741824 microbatches are no pipeline\n");
  schedule.shape = {0, 1, 1};
  CHECK(problems(schedule) == "0.0 0 ranks, 1 chunks and 1 microbatches are no pipeline\n");
  CHECK(problems(rows("0F0", "1F0")) ==
        "0.1 the row has 1 cells for 2 forwards and their backwards\n");
  schedule.actions.clear();
  CHECK(!explain(schedule, validate(schedule).front()).empty());
  schedule = rows(kGoodRow0, kGoodRow1);
  schedule.sends_in_flight = 0;
  CHECK(problems(schedule) == "0.0 no send may be in flight at all\n");
}

TEST_CASE("a circle of results is found, with who waits for whom") {
  // Stage 0 wants the gradient before it makes the activation from which stage 1 would make it.
  CHECK(problems(rows("0F0 0B1 0F1 0B0", kGoodRow1)) == "0.1 0B1 comes before 0F1 (cell 2)\n");
  CHECK(problems(rows("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1")) ==
        "0.1 0B0 waits in a cycle of 2 ranks\n"
        "  rank 0, cell 1 (0B0) waits for rank 1, cell 2 (1B0)\n"
        "  rank 1, cell 1 (1F1) waits for rank 0, cell 2 (0F1)\n");
}

TEST_CASE("two ends of an edge that disagree on the order are found") {
  CHECK(problems(rows(kGoodRow0, "1F1 1B1 1F0 1B0")) ==
        "1.0 1RECV_F1 is transfer 0 of its edge, but there rank 0, cell 0 (0SEND_F0) is sent\n"
        "0.2 0RECV_B0 is transfer 0 of its edge, but there rank 1, cell 1 (1SEND_B1) is sent\n");
}

TEST_CASE("a circle under the protocol is found where the order alone is fine") {
  PipelineSchedule schedule = make_schedule("looped_bfs", {2, 2, 10});
  schedule.sends_in_flight = 2;
  CHECK(problems(schedule) ==
        "0.7 0SEND_F7 waits in a cycle of 2 ranks\n"
        "  rank 0, cell 7 (0SEND_F7) waits for rank 1, cell 5 (1RECV_F5)\n"
        "  rank 1, cell 2 (1SEND_F2) waits for rank 0, cell 10 (2RECV_F0)\n");
  // The same in cells of the lowered lists.
  const std::string lowered = problems(lower(schedule));
  CHECK(lowered.starts_with("0.15 0SEND_F7 waits in a cycle of 2 ranks\n"));
}

TEST_CASE("sends and receives that are missing, late or have nobody to talk to are found") {
  const std::string row0 = "0F0 0RECV_B0 0SEND_F0 0F1 0RECV_B1 0SEND_F1 0B0 0B1";
  const std::string row1 = "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1SEND_B1 1B1";
  CHECK(problems(rows(row0, row1)) == "1.6 1SEND_B1 comes before 1B1 (cell 7)\n");
  CHECK(problems(rows(row0, "1F0 1RECV_F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1")) ==
        "1.0 1F0 comes before 1RECV_F0 (cell 1)\n");
  CHECK(problems(rows(row0, "1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1")) ==
        "1.4 1RECV_F1 is missing\n");
  CHECK(problems(rows(row0, "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1")) ==
        "1.6 1SEND_B1 is missing\n");
  CHECK(problems(rows(row0, "1RECV_F0 1RECV_F1 1F0 1SEND_F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1")) ==
        "1.3 1SEND_F0 has no other rank to talk to: it is at an end of the pipeline, or the next "
        "stage is on this rank\n");
}

TEST_CASE("one swapped action is explained with row and cell, in every schedule") {
  CHECK(first_explanation(with_swap(make_schedule("gpipe", {2, 1, 3}), 1, 1, 2)) ==
        "pipeline schedule gpipe is wrong at rank 1, cell 1: 1RECV_F2 is transfer 1 of its edge, "
        "but there rank 0, cell 1 (0SEND_F1) is sent\n"
        "  cell    0    1    2    3    4\n"
        "  rank 0: 0F0  0F1  0F2  0B0  0B1\n"
        "  rank 1: 1F0 [1F2] 1F1  1B0  1B1\n");
  CHECK(first_explanation(with_swap(make_schedule("1f1b", {3, 1, 4}), 1, 1, 3)) ==
        "pipeline schedule 1f1b is wrong at rank 1, cell 1: 1RECV_F2 is transfer 1 of its edge, "
        "but there rank 0, cell 1 (0SEND_F1) is sent\n"
        "  cell    0    1    2    3    4\n"
        "  rank 0: 0F0  0F1  0F2  0B0  0F3\n"
        "  rank 1: 1F0 [1F2] 1B0  1F1  1B1\n"
        "  rank 2: 2F0  2B0  2F1  2B1  2F2\n");
  CHECK(first_explanation(with_swap(make_schedule("interleaved_1f1b", {2, 2, 4}), 0, 1, 2)) ==
        "pipeline schedule interleaved_1f1b is wrong at rank 1, cell 1: 1RECV_F1 is transfer 1 of "
        "its edge, but there rank 0, cell 1 (2SEND_F0) is sent\n"
        "  cell    0    1    2    3    4\n"
        "  rank 0: 0F0  2F0  0F1  2F1  0F2\n"
        "  rank 1: 1F0 [1F1] 3F0  3B0  3F1\n");
  CHECK(first_explanation(with_swap(make_schedule("looped_bfs", {2, 2, 4}), 1, 4, 0)) ==
        "pipeline schedule looped_bfs is wrong at rank 0, cell 4: 2F0 waits in a cycle of 2 "
        "ranks\n"
        "  rank 0, cell 4 (2F0) waits for rank 1, cell 4 (1F0)\n"
        "  rank 1, cell 0 (3F0) waits for rank 0, cell 4 (2F0)\n"
        "  cell    1    2    3    4    5    6    7\n"
        "  rank 0: 0F1  0F2  0F3 [2F0] 2F1  2F2  2F3\n"
        "  rank 1: 1F1  1F2  1F3  1F0  3F1  3F2  3F3\n");
  CHECK(first_explanation(with_swap(make_schedule("zb_h1", {3, 1, 4}), 2, 5, 10)) ==
        "pipeline schedule zb_h1 is wrong at rank 2, cell 5: 2W2 comes before 2I2 (cell 10)\n"
        "  cell    2    3    4    5    6    7    8\n"
        "  rank 1: 1I0  1F2  1I1  1W0  1F3  1I2  1W1\n"
        "  rank 2: 2F1  2I1  2F2 [2W2] 2W0  2F3  2I3\n");
}

TEST_CASE("a wrong schedule ends a run as wrong communication does") {
  const PipelineSchedule wrong = with_swap(make_schedule("1f1b", {3, 1, 4}), 1, 1, 3);
  try {
    (void)timeline(wrong, {{{1, 1, 1}}, 0});
    FAIL("nothing was thrown");
  } catch (const CommunicationError& error) {
    CHECK(error.exit_code() == ExitCode::communication);
    CHECK(error.diagnosis().to_text() ==
          "SCHEDULE_WRONG: pipeline schedule 1f1b is wrong at rank 1, cell 1: 1RECV_F2 is transfer "
          "1 of its edge, but there rank 0, cell 1 (0SEND_F1) is sent\n"
          "  rank 0: from cell 0: 0F0  0F1  0F2  0B0  0F3\n"
          "  rank 1: from cell 0: 1F0 [1F2] 1B0  1F1  1B1\n"
          "  rank 2: from cell 0: 2F0  2B0  2F1  2B1  2F2\n"
          "  = help: correct the function that makes this schedule; ranks are pipeline ranks (this "
          "is the first of 2 problems)\n");
  }
}

TEST_CASE("a schedule that deadlocks ends a run with the circle") {
  PipelineSchedule schedule = make_schedule("looped_bfs", {2, 2, 12});
  schedule.sends_in_flight = 1;
  try {
    require_valid(lower(schedule));
    FAIL("nothing was thrown");
  } catch (const CommunicationError& error) {
    CHECK(error.diagnosis().code == "SCHEDULE_DEADLOCK");
    CHECK(error.diagnosis().cycle.size() == 2);
    CHECK(error.diagnosis().hint.find("sends_in_flight") != std::string::npos);
  }
}

}  // namespace shardsim::test
