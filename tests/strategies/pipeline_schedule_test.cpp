#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/schedule_text.hpp"

// The lists themselves, against tables written by hand from the papers' figures.
namespace shardsim {

namespace {

std::string table(std::string_view name, const PipelineShape& shape) {
  return to_text(make_schedule(name, shape));
}

// "code: message (fix)"; empty if nothing is thrown.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() + ": " + error.what() + " (" + error.fix() + ")";
  }
  return {};
}

std::string refusal(std::string_view name, const PipelineShape& shape) {
  return error_of([&] { (void)make_schedule(name, shape); });
}

}  // namespace

TEST_CASE("gpipe runs all forwards, then all backwards") {
  CHECK(table("gpipe", {.num_ranks = 2, .num_microbatches = 3}) ==
        "schedule gpipe: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"
        "rank 1: 1F0 1F1 1F2 1B0 1B1 1B2\n");
}

TEST_CASE("1f1b warms up with one forward per rank that follows") {
  CHECK(table("1f1b", {.num_ranks = 3, .num_microbatches = 4}) ==
        "schedule 1f1b: 3 ranks, 1 chunks, 4 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
        "rank 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n"
        "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n");
  CHECK(table("1f1b", {.num_ranks = 3, .num_microbatches = 1}) ==
        "schedule 1f1b: 3 ranks, 1 chunks, 1 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0 0B0\n"
        "rank 1: 1F0 1B0\n"
        "rank 2: 2F0 2B0\n");
}

TEST_CASE("interleaved 1f1b takes rounds of p microbatches through every chunk") {
  CHECK(table("interleaved_1f1b", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 4}) ==
        "schedule interleaved_1f1b: 2 ranks, 2 chunks, 4 microbatches, loop placement, 2 sends in "
        "flight\n"
        "rank 0: 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3\n"
        "rank 1: 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3\n");
}

TEST_CASE("looped bfs runs chunk after chunk") {
  CHECK(
      table("looped_bfs", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 2}) ==
      "schedule looped_bfs: 2 ranks, 2 chunks, 2 microbatches, loop placement, 2 sends in flight\n"
      "rank 0: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n"
      "rank 1: 1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1\n");
}

TEST_CASE("with one chunk looped bfs is gpipe") {
  for (const int ranks : {1, 2, 5}) {
    for (const int microbatches : {1, 4, 12}) {
      PipelineSchedule one_chunk = make_schedule("looped_bfs", {ranks, 1, microbatches});
      one_chunk.name = "gpipe";
      CHECK(one_chunk == make_schedule("gpipe", {ranks, 1, microbatches}));
    }
  }
}

TEST_CASE("with one chunk interleaved 1f1b is 1f1b with twice the warm-up") {
  CHECK(table("interleaved_1f1b", {.num_ranks = 3, .num_microbatches = 6}) ==
        "schedule interleaved_1f1b: 3 ranks, 1 chunks, 6 microbatches, loop placement, 2 sends in "
        "flight\n"
        "rank 0: 0F0 0F1 0F2 0F3 0F4 0B0 0F5 0B1 0B2 0B3 0B4 0B5\n"
        "rank 1: 1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5\n"
        "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5\n");
}

TEST_CASE("zb_h1 delays the weight gradients of rank r by r microbatches") {
  CHECK(table("zb_h1", {.num_ranks = 3, .num_microbatches = 4}) ==
        "schedule zb_h1: 3 ranks, 1 chunks, 4 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
        "rank 1: 1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3\n"
        "rank 2: 2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3\n");
}

TEST_CASE("every schedule has a name and a summary") {
  CHECK(schedule_names() ==
        std::vector<std::string_view>{"gpipe", "1f1b", "interleaved_1f1b", "looped_bfs", "zb_h1"});
  for (const std::string_view name : schedule_names()) CHECK(!schedule_summary(name).empty());
}

TEST_CASE("a schedule that cannot run in a shape is refused with the value and the way out") {
  CHECK(refusal("1f2b", {}) ==
        "E0751: there is no pipeline schedule \"1f2b\" (schedules are gpipe, 1f1b, "
        "interleaved_1f1b, looped_bfs, zb_h1)");
  CHECK(refusal("1f1b", {.num_ranks = 0}) ==
        "E0752: num_ranks (0) of a pipeline must be at least 1 (give a positive number)");
  CHECK(refusal("1f1b", {.num_chunks = -1}).starts_with("E0752: num_chunks (-1)"));
  CHECK(refusal("1f1b", {.num_microbatches = 0}).starts_with("E0752: num_microbatches (0)"));
  for (const std::string_view name : {"gpipe", "1f1b", "zb_h1"}) {
    CHECK(refusal(name, {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 2}) ==
          "E0753: " + std::string(name) +
              " runs 1 model chunk(s) per rank, not num_chunks (2) (set num_chunks to 1, or take "
              "interleaved_1f1b or looped_bfs)");
  }
  CHECK(refusal("interleaved_1f1b", {.num_ranks = 4, .num_chunks = 2, .num_microbatches = 6}) ==
        "E0754: interleaved_1f1b runs microbatches in rounds of one per rank: num_microbatches (6) "
        "is not a multiple of num_ranks (4) (take 4 or 8 microbatches, or looped_bfs, which takes "
        "any number)");
  CHECK(refusal("interleaved_1f1b", {.num_ranks = 4, .num_chunks = 2, .num_microbatches = 3})
            .ends_with("(take 4 microbatches, or looped_bfs, which takes any number)"));
  CHECK(refusal("1f1b", {.num_ranks = 1 << 12, .num_microbatches = (1 << 12) + 1})
            .starts_with("E0755: num_ranks (4096) x num_chunks (1) x num_microbatches (4097) is "
                         "more than the 16777216 forwards"));
  constexpr int kMost = std::numeric_limits<int>::max();
  CHECK(refusal("looped_bfs", {.num_ranks = kMost, .num_chunks = 32767, .num_microbatches = kMost})
            .starts_with("E0755"));
}

TEST_CASE("loop placement counts stages around the ranks, v placement there and back") {
  const PipelineSchedule loop{
      "any", {.num_ranks = 4, .num_chunks = 3}, Placement::loop, kTwoSends, {}};
  const PipelineSchedule v{"any", {.num_ranks = 4, .num_chunks = 3}, Placement::v, kTwoSends, {}};
  CHECK(loop.stage_of(1, 2) == 9);
  CHECK(v.stage_of(1, 0) == 1);
  CHECK(v.stage_of(1, 1) == 6);
  CHECK(v.stage_of(1, 2) == 9);
  CHECK(v.rank_of(3) == v.rank_of(4));
  for (const PipelineSchedule& schedule : {loop, v}) {
    for (int stage = 0; stage < schedule.num_stages(); ++stage) {
      CHECK(schedule.stage_of(schedule.rank_of(stage), schedule.chunk_of(stage)) == stage);
    }
  }
}

TEST_CASE("a schedule knows whether it splits backward") {
  CHECK(make_schedule("zb_h1", {}).splits_backward());
  CHECK(!make_schedule("1f1b", {}).splits_backward());
  CHECK(!make_schedule("1f1b", {}).is_lowered());
}

}  // namespace shardsim
