#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_row.hpp"
#include "strategies/pipeline/schedule_text.hpp"

// A schedule as text and back.
namespace shardsim {

namespace {

constexpr const char* kHeader =
    "schedule mine: 2 ranks, 1 chunks, 2 microbatches, loop placement, 2 sends in flight\n";

std::string parse_error(const std::string& text) {
  try {
    (void)parse_schedule_text(text);
  } catch (const UsageError& error) {
    return error.code() + ": " + error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a schedule's text reads back as the same schedule") {
  for (const std::string_view name : schedule_names()) {
    const int chunks = std::min(3, schedule_row(name).max_chunks);
    // Twelve ranks and microbatches, so that rows and cells differ in width.
    for (const int ranks : {1, 2, 3, 12}) {
      const PipelineSchedule schedule = make_schedule(
          name, {.num_ranks = ranks,
                 .num_chunks = chunks,
                 .num_microbatches =
                     schedule_row(name).placement == Placement::v || name == "zb_h2" ? 24 : 12});
      CHECK(parse_schedule_text(to_text(schedule)) == schedule);
    }
  }
}

TEST_CASE("every kind of action and both placements read back") {
  const std::string text =
      "schedule any: 2 ranks, 2 chunks, 12 microbatches, v placement, 2 sends in flight\n"
      "rank 0: 0F0      3RECV_F0 0SEND_F0 3B0      3SEND_B0 0RECV_B11 0I11\n"
      "rank 1: 1RECV_F0 2W3      1F4&     2B2\n";
  const PipelineSchedule schedule = parse_schedule_text(text);
  REQUIRE(schedule.actions.size() == 2);
  CHECK(schedule.placement == Placement::v);
  CHECK(schedule.actions[0][1] == make_action(ActionKind::recv_forward, 1, 0));
  CHECK(schedule.actions[0][5] == make_action(ActionKind::recv_backward, 0, 11));
  CHECK(schedule.actions[1][1] == make_action(ActionKind::backward_weight, 1, 3));
  CHECK(schedule.actions[1][2].overlaps_next);
  CHECK(schedule.actions[1][2].microbatch == 4);
  CHECK(!schedule.actions[1][3].overlaps_next);
  CHECK(schedule.is_lowered());
  CHECK(parse_schedule_text(to_text(schedule)) == schedule);
}

TEST_CASE("an empty row and a wrong schedule read back, too") {
  const std::string text = std::string(kHeader) + "rank 0:\nrank 1: 1B7 1F0 1F0\n";
  CHECK(to_text(parse_schedule_text(text)) == text);
}

TEST_CASE("text that is no schedule is refused at its line and column") {
  const std::string header = kHeader;
  CHECK(parse_error("") ==
        "E0756: schedule text, line 1, column 1: expected \"schedule\", found nothing");
  CHECK(parse_error("schedule : 2 ranks") ==
        "E0756: schedule text, line 1, column 10: expected the schedule's name, found nothing");
  CHECK(parse_error("schedule x: 0 ranks, 1 chunks") ==
        "E0756: schedule text, line 1, column 13: expected at least one, found \"0\"");
  CHECK(parse_error("schedule x: 2 ranks 1 chunks") ==
        "E0756: schedule text, line 1, column 21: expected ',', found \"1\"");
  CHECK(parse_error("schedule x: 2 ranks, 1 chunks, 99999999999 microbatches") ==
        "E0756: schedule text, line 1, column 32: expected the number of microbatches, found "
        "\"99999999999\"");
  CHECK(parse_error("schedule x: 2 ranks, 1 chunks, 2 microbatches, w placement") ==
        "E0756: schedule text, line 1, column 48: expected \"loop\" or \"v\", found \"w\"");
  CHECK(parse_error(header + "rank 1: 1F0") ==
        "E0756: schedule text, line 2, column 6: expected rank 0, found \"1\"");
  CHECK(parse_error(header + "rank 0: 0F0 0X0\n") ==
        "E0756: schedule text, line 2, column 13: expected an action such as 2F0 or 1SEND_B3, "
        "found \"0X0\"");
  CHECK(parse_error(header + "rank 0: 0F0 1F0\n") ==
        "E0756: schedule text, line 2, column 13: expected an action of a stage of rank 0, found "
        "\"1F0\"");
  CHECK(parse_error(header + "rank 0: F0\n").starts_with("E0756: schedule text, line 2, column 9"));
  CHECK(parse_error(header + "rank 0: 0F\n").starts_with("E0756: schedule text, line 2, column 9"));
  CHECK(parse_error(header + "rank 0: 0F0\n") ==
        "E0756: schedule text, line 3, column 1: expected \"rank\", found nothing");
  CHECK(parse_error(header + "rank 0: 0F0\nrank 1: 1F0\nrank 2: 0F0") ==
        "E0756: schedule text, line 4, column 1: expected nothing after the last rank, found "
        "\"rank\"");
  CHECK(parse_error("schedule x: 2 ranks, 2000000000 chunks, 2 microbatches, loop placement")
            .find("expected at most 16777216 forwards in all") != std::string::npos);
  // A chunk that its number cannot hold must not wrap around to another one.
  CHECK(parse_error(header + "rank 0: 131072F0\n").find("a stage of rank 0") != std::string::npos);
}

}  // namespace shardsim
