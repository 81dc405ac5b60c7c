#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_row.hpp"
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
  // One more forward ahead, then blocks.
  CHECK(table("combined_1f1b", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 4}) ==
        "schedule combined_1f1b: 2 ranks, 2 chunks, 4 microbatches, loop placement, 2 sends in "
        "flight\n"
        "rank 0: 0F0  0F1  2F0  2F1  0F2  0F3& 2B0  2F2& 2B1  2F3& 0B0  0B1  2B2  2B3  0B2  0B3\n"
        "rank 1: 1F0  1F1  3F0  3F1& 3B0  1F2& 3B1  1F3& 1B0  3F2& 1B1  3F3& 3B2  3B3  1B2  1B3\n");
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

TEST_CASE(
    "zb_h2 warms up twice as long as 1f1b and delays weight gradients twice as long as zb_h1") {
  CHECK(table("zb_h2", {.num_ranks = 3, .num_microbatches = 5}) ==
        "schedule zb_h2: 3 ranks, 1 chunks, 5 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0 0F1 0F2 0F3 0F4 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4\n"
        "rank 1: 1F0 1F1 1F2 1I0 1F3 1I1 1F4 1I2 1W0 1I3 1W1 1I4 1W2 1W3 1W4\n"
        "rank 2: 2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2F4 2I4 2W0 2W1 2W2 2W3 2W4\n");
}

TEST_CASE("zb_v goes down and up the ranks") {
  // As PyTorch's ScheduleZBVZeroBubble for two ranks and four microbatches.
  CHECK(table("zb_v", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 4}) ==
        "schedule zb_v: 2 ranks, 2 chunks, 4 microbatches, v placement, 2 sends in flight\n"
        "rank 0: 0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 "
        "0I2 0W2 0I3 0W3\n"
        "rank 1: 1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 "
        "1I3 1W2 2W3 1W3\n");
}

TEST_CASE("v_half and v_min hold 2 (floor(p/2) + 1) and 2 (floor((p+1)/3) + 1) chunks") {
  CHECK(table("v_half", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 3}) ==
        "schedule v_half: 2 ranks, 2 chunks, 3 microbatches, v placement, 2 sends in flight\n"
        "rank 0: 0F0 3F0 0F1 3I0 3W0 3F1 0F2 0I0 3I1 0W0 3W1 3F2 0I1 3I2 0W1 3W2 0I2 0W2\n"
        "rank 1: 1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 1W0 2F2 2I1 1I1 2W1 1W1 2I2 1I2 2W2 1W2\n");
  CHECK(table("v_min", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 3}) ==
        "schedule v_min: 2 ranks, 2 chunks, 3 microbatches, v placement, 2 sends in flight\n"
        "rank 0: 0F0 3F0 3I0 0F1 3W0 0I0 0W0 3F1 3I1 0F2 3W1 0I1 0W1 3F2 3I2 3W2 0I2 0W2\n"
        "rank 1: 1F0 2F0 2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2\n");
}

TEST_CASE("dualpipe_v is that of PyTorch, which has it from DeepSeek") {
  // From the figure for four ranks and ten microbatches, the first and the last rank.
  const std::string text =
      table("dualpipe_v", {.num_ranks = 4, .num_chunks = 2, .num_microbatches = 10});
  const auto has_row = [&](const std::string& row) {
    std::string squeezed;  // Columns are padded.
    for (const char c : text) {
      if (c != ' ' || squeezed.empty() || squeezed.back() != ' ') squeezed += c;
    }
    return squeezed.find(row) != std::string::npos;
  };
  CHECK(
      has_row("rank 0: 0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 0F7& "
              "7B3 7F4& 0B0 0F8& 7B4 7F5& 0B1 0F9& 7B5 7F6& 0B2 7B6 7F7& 0B3 7B7 7F8& 0B4 7B8 "
              "7F9& 0B5 7B9 0I6 0W6 0I7 0W7 0I8 0W8 0I9 0W9\n"));
  CHECK(
      has_row("rank 3: 3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 3F4 4B0 4F4& 3B0 3F5& 4B1 4F5& 3B1 3F6& "
              "4B2 4F6& 3B2 3F7& 4B3 4F7& 3B3 3F8& 4B4 4F8& 3B4 3F9& 4B5 4F9& 3B5 4B6 3B6 4B7 "
              "3B7 4I8 3I8 4I9 3I9 4W8 3W8 4W9 3W9\n"));
}

TEST_CASE("every schedule has a name and a summary") {
  CHECK(schedule_names() == std::vector<std::string_view>{
                                "gpipe", "1f1b", "interleaved_1f1b", "combined_1f1b", "looped_bfs",
                                "zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "dualpipe_v"});
  for (const std::string_view name : schedule_names()) CHECK(!schedule_row(name).summary.empty());
}

TEST_CASE("a schedule that cannot run in a shape is refused with the value and the way out") {
  CHECK(refusal("1f2b", {}) ==
        "E0751: there is no pipeline schedule \"1f2b\" (schedules are gpipe, 1f1b, "
        "interleaved_1f1b, combined_1f1b, looped_bfs, zb_h1, zb_h2, zb_v, v_half, v_min, "
        "dualpipe_v)");
  CHECK(refusal("1f1b", {.num_ranks = 0}) ==
        "E0752: num_ranks (0) of a pipeline must be at least 1 (give a positive number)");
  CHECK(refusal("1f1b", {.num_chunks = -1}).starts_with("E0752: num_chunks (-1)"));
  CHECK(refusal("1f1b", {.num_microbatches = 0}).starts_with("E0752: num_microbatches (0)"));
  for (const std::string_view name : {"gpipe", "1f1b", "zb_h1", "zb_h2"}) {
    CHECK(refusal(name, {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 2}) ==
          "E0753: " + std::string(name) +
              " runs 1 model chunk(s) per rank, not num_chunks (2) (set num_chunks to 1, or take "
              "interleaved_1f1b, combined_1f1b or looped_bfs)");
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
  for (const char* name : {"zb_v", "v_half", "v_min", "dualpipe_v"}) {
    CHECK(refusal(name, {.num_ranks = 2, .num_chunks = 1, .num_microbatches = 4}) ==
          "E0753: " + std::string(name) +
              " runs 2 model chunk(s) per rank, not num_chunks (1) (set num_chunks to 2)");
    CHECK(refusal(name, {.num_ranks = 2, .num_chunks = 3, .num_microbatches = 4})
              .ends_with("not num_chunks (3) (set num_chunks to 2)"));
  }
  CHECK(refusal("zb_h2", {.num_ranks = 4, .num_microbatches = 6}) ==
        "E0760: zb_h2 fills num_ranks (4) with 7 microbatches at least, not num_microbatches (6) "
        "(take 7 microbatches or more, or 1f1b or zb_h1, which take any number)");
  for (const char* name : {"zb_v", "v_half", "v_min"}) {
    CHECK(refusal(name, {.num_ranks = 3, .num_chunks = 2, .num_microbatches = 4})
              .starts_with("E0760: " + std::string(name) + " fills num_ranks (3) with 5 "));
    CHECK(refusal(name, {.num_ranks = 3, .num_chunks = 2, .num_microbatches = 5}).empty());
  }
  CHECK(refusal("dualpipe_v", {.num_ranks = 3, .num_chunks = 2, .num_microbatches = 5})
            .starts_with("E0760: dualpipe_v fills num_ranks (3) with 6 "));
  CHECK(refusal("dualpipe_v", {.num_ranks = 3, .num_chunks = 2, .num_microbatches = 6}).empty());
  constexpr int kMost = std::numeric_limits<int>::max();
  CHECK(refusal("looped_bfs", {.num_ranks = kMost, .num_chunks = 32767, .num_microbatches = kMost})
            .starts_with("E0755"));
}

TEST_CASE("loop placement counts stages around the ranks, v placement there and back") {
  const PipelineSchedule loop{
      "any", {.num_ranks = 4, .num_chunks = 3}, Placement::loop, kTwoSends, {}, nullptr};
  const PipelineSchedule v{"any",  {.num_ranks = 4, .num_chunks = 3}, Placement::v, kTwoSends, {},
                           nullptr};
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
