#include <algorithm>
#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_text.hpp"
#include "strategies/pipeline/timeline.hpp"

#include "tests/strategies/pipeline_fixture.hpp"

// Times of schedules: small ones by hand, all of them against the closed formulas.
namespace shardsim::test {

namespace {

ScheduleCosts equal_costs(std::int64_t forward, std::int64_t input, std::int64_t weight,
                          std::int64_t message = 0) {
  return {{{forward, input, weight}}, message};
}

using Spans = std::vector<ActionSpan>;

std::int64_t worst_idle_in_span(const Timeline& times) {
  std::int64_t worst = 0;
  for (const RankTimeline& rank : times.ranks) worst = std::max(worst, rank.idle_in_span);
  return worst;
}

std::string error_of(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  try {
    (void)timeline(schedule, costs);
  } catch (const Error& error) {
    return error.code() + ": " + error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("1f1b on two ranks, by hand") {
  // rank 0: F0 F1 .  .  B0 B0 F2 . B1 B1 .  . B2 B2    F = 1, I = W = 1
  // rank 1: .  F0 B0 B0 F1 B1 B1 F2 B2 B2
  const Timeline times = timeline(make_schedule("1f1b", {.num_ranks = 2, .num_microbatches = 3}),
                                  equal_costs(1, 1, 1));
  CHECK(times.spans[0] == Spans{{0, 1}, {1, 2}, {4, 6}, {6, 7}, {7, 9}, {10, 12}});
  CHECK(times.spans[1] == Spans{{1, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 8}, {8, 10}});
  CHECK(times.makespan == 12);
  CHECK(times.ranks[0].busy == 9);
  CHECK(times.ranks[0].idle == 3);
  CHECK(times.ranks[0].idle_in_span == 3);
  CHECK(times.ranks[1].idle == 3);
  CHECK(times.ranks[1].idle_in_span == 0);
}

TEST_CASE("a message takes its time, and hides behind computing") {
  // Each F and each B takes 4, a message 3. Rank 0 sends F0 at 4 and F1 at 8; the latter arrives at
  // 11, while rank 1 computes F0, so that only the first is waited for.
  const PipelineSchedule schedule = make_schedule("gpipe", {.num_ranks = 2, .num_microbatches = 2});
  for (const PipelineSchedule& played : {schedule, lower(schedule)}) {
    const Timeline times = timeline(played, equal_costs(4, 2, 2, 3));
    Spans computed;
    for (std::size_t cell = 0; cell < played.actions[1].size(); ++cell) {
      if (is_compute(played.actions[1][cell].kind)) computed.push_back(times.spans[1][cell]);
    }
    CHECK(computed == Spans{{7, 11}, {11, 15}, {15, 19}, {19, 23}});
    CHECK(times.makespan == 23 + 3 + 4);
  }
}

TEST_CASE("transfers of one edge queue, those of opposite directions do not") {
  // A message takes 10, F and B each 1.
  // F0 travels [1,11], F1 [11,21], F2 [21,31]: one stream. The send of F2 waits for that of F0, two
  // earlier, and is posted at 11. Gradients travel [33,43] and so on, on their own stream.
  const PipelineSchedule lowered =
      lower(make_schedule("gpipe", {.num_ranks = 2, .num_microbatches = 3}));
  CHECK(to_text(lowered).find(
            "0F0      0SEND_F0 0F1      0RECV_B0 0SEND_F1 0F2      0RECV_B1 0SEND_F2 0B0") !=
        std::string::npos);
  const Timeline times = timeline(lowered, equal_costs(1, 1, 0, 10));
  CHECK(times.spans[0] == Spans{{0, 1},
                                {1, 11},
                                {1, 2},
                                {2, 43},
                                {2, 21},
                                {2, 3},
                                {3, 53},
                                {11, 31},
                                {43, 44},
                                {44, 63},
                                {53, 54},
                                {63, 64}});
}

TEST_CASE("a stage that is slow holds up the ranks before it by two sends") {
  // Rank 1 takes 10 for a forward. It fetches F0 and F1 at once, F2 when it begins F1 at 11, F3
  // when it begins F2 at 21. F4 is sent when F2 is gone, F5 when F3 is.
  const PipelineSchedule lowered =
      lower(make_schedule("gpipe", {.num_ranks = 2, .num_microbatches = 6}));
  const Timeline times = timeline(lowered, {{{1, 0, 0}, {10, 0, 0}}, 0});
  std::vector<std::int64_t> posted;
  for (std::size_t cell = 0; cell < lowered.actions[0].size(); ++cell) {
    if (is_send(lowered.actions[0][cell].kind)) posted.push_back(times.spans[0][cell].start);
  }
  CHECK(posted == std::vector<std::int64_t>{1, 2, 3, 4, 11, 21});
}

TEST_CASE("P37: idle time is that of the closed formulas") {
  // F, I and W of a rank's share, each a multiple of all V up to 4, so that chunks have whole
  // times.
  for (const auto& [f, i, w] : {std::array{12, 12, 12}, {36, 48, 24}, {24, 36, 60}, {12, 60, 36}}) {
    for_each_schedule([f = f, i = i, w = w](const PipelineSchedule& schedule) {
      const int v = schedule.shape.num_chunks;
      const int busy = schedule.shape.num_microbatches * (f + i + w);
      const std::optional<std::int64_t> idle = expected_idle(schedule, f, i, w);
      const Timeline times = timeline(schedule, equal_costs(f / v, i / v, w / v));
      INFO(to_text(schedule));
      for (const RankTimeline& rank : times.ranks) {
        REQUIRE(rank.busy == busy);
        if (idle) REQUIRE(rank.idle == *idle);
      }
      if (idle) REQUIRE(times.makespan == busy + *idle);
      const std::optional<std::int64_t> in_span = expected_idle_in_span(schedule, f, i, w);
      if (in_span) REQUIRE(worst_idle_in_span(times) == *in_span);
    });
  }
}

TEST_CASE("P37: with W <= F <= I dualpipe_v idles no longer than its formula says") {
  for (const auto& [f, i, w] : {std::array{2, 2, 1}, {3, 4, 2}, {1, 5, 1}, {4, 4, 0}, {6, 7, 5}}) {
    for (int p = 1; p <= 8; ++p) {
      for (const int microbatches : {2 * p, 2 * p + 1, 4 * p}) {
        const Timeline times =
            timeline(make_schedule("dualpipe_v", {p, 2, microbatches}), equal_costs(f, i, w));
        const int overlapped = f + i + w;
        CHECK(worst_idle_in_span(times) <= (p - 1) * (overlapped + (i + w) - 3 * w));
        CHECK(times.ranks[0].idle <= (p - 1) * (overlapped + (i + w) - 3 * w));
      }
    }
  }
  // Not so where a forward is longer than I.
  const Timeline times = timeline(make_schedule("dualpipe_v", {4, 2, 8}), equal_costs(7, 3, 1));
  CHECK(times.ranks[0].idle > 3 * (11 + 4 - 3));
}

TEST_CASE("P37: published shares of 1f1b's bubble and memory are the limits of ours") {
  // With F = I = W = 1 of a chunk 1f1b idles 6(p-1) and holds p microbatches.
  for (int p = 2; p <= 16; ++p) {
    const auto measure = [&](const char* name) {
      return timeline(make_schedule(name, {p, 2, 2 * p + 3}), equal_costs(1, 1, 1));
    };
    const Timeline half = measure("v_half");
    const Timeline least = measure("v_min");
    CHECK(std::abs(2 * half.ranks[0].idle - 6 * (p - 1)) <= 2);
    CHECK(std::abs(3 * least.ranks[0].idle - 2 * 6 * (p - 1)) <= 3);
    // In chunks, of which a microbatch has two: p/2 and p/3 microbatches are p and 2p/3 of them.
    for (const RankTimeline& rank : half.ranks) CHECK(rank.peak_in_flight <= p + 2);
    for (const RankTimeline& rank : least.ranks) CHECK(3 * rank.peak_in_flight <= 2 * p + 8);
  }
}

TEST_CASE("a block starts when both of its actions can, and what they make leaves at its end") {
  // Rank 0 computes F0 F1 [F2 & B0] B1 B2; rank 1 needs F2 and gives B0.
  PipelineSchedule schedule = parse_schedule_text(
      "schedule own: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n"
      "rank 0: 0F0 0F1 0F2& 0B0 0B1 0B2\n"
      "rank 1: 1F0 1B0 1F1 1B1 1F2 1B2\n");
  for (const PipelineSchedule& played : {schedule, lower(schedule)}) {
    const Timeline times = timeline(played, equal_costs(1, 1, 1));
    const auto span_of = [&](std::size_t rank, const std::string& text) {
      for (std::size_t cell = 0;; ++cell) {
        if (to_text(played.actions[rank].at(cell), static_cast<int>(rank)) == text) {
          return times.spans[rank][cell];
        }
      }
    };
    // B0 of rank 1 ends at 4: rank 0 waits although F2 needs nothing. F2 is there when B0 is done.
    CHECK(span_of(0, "0F2&") == ActionSpan{4, 5});
    CHECK(span_of(0, "0B0") == ActionSpan{5, 7});
    CHECK(span_of(1, "1B1") == ActionSpan{5, 7});
    CHECK(span_of(1, "1F2") == ActionSpan{7, 8});
  }
  // Without the mark F2 comes first, and is fetched at once.
  schedule.actions[0][2].overlaps_next = false;
  CHECK(timeline(schedule, equal_costs(1, 1, 1)).spans[0][2] == ActionSpan{2, 3});
}

TEST_CASE("P37: without message times the protocol costs nothing") {
  for_each_schedule([](const PipelineSchedule& schedule) {
    for (const ScheduleCosts& costs : {equal_costs(1, 1, 1), equal_costs(3, 5, 2)}) {
      INFO(to_text(schedule));
      const std::int64_t makespan = timeline(schedule, costs).makespan;
      REQUIRE(timeline(lower(schedule), costs).makespan == makespan);
      // All but looped BFS need only one send in flight.
      if (schedule.name == "looped_bfs") continue;
      PipelineSchedule lowered = lower(schedule);
      lowered.sends_in_flight = 1;
      REQUIRE(timeline(lowered, costs).makespan == makespan);
    }
  });
}

TEST_CASE("looped bfs needs as many sends in flight as it has") {
  // With one less, the last rank waits until rank 0 fetches.
  for (int ranks = 2; ranks <= 5; ++ranks) {
    for (int microbatches = ranks + 4; microbatches <= 20; ++microbatches) {
      PipelineSchedule schedule = make_schedule("looped_bfs", {ranks, 2, microbatches});
      REQUIRE(schedule.sends_in_flight == microbatches - ranks - 1);
      const std::int64_t makespan = timeline(schedule, equal_costs(1, 1, 1)).makespan;
      CHECK(timeline(lower(schedule), equal_costs(1, 1, 1)).makespan == makespan);
      schedule.sends_in_flight -= 1;
      if (microbatches < ranks + 8) {  // With far less it deadlocks, which has its own test.
        CHECK(timeline(lower(schedule), equal_costs(1, 1, 1)).makespan > makespan);
      }
    }
  }
}

TEST_CASE("P37: activations in flight are those of the table") {
  for_each_schedule([](const PipelineSchedule& schedule) {
    const Timeline times = timeline(schedule, equal_costs(1, 1, 1));
    int worst = 0;
    for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
      const int held = times.ranks[static_cast<std::size_t>(rank)].peak_in_flight;
      worst = std::max(worst, held);
      INFO(to_text(schedule) << "rank " << rank);
      const std::optional<int> chunks = expected_in_flight(schedule, rank);
      if (chunks) REQUIRE(held == *chunks);
      REQUIRE(peak_in_flight(lower(schedule), rank) == held);
    }
    INFO(to_text(schedule));
    REQUIRE(worst == expected_peak_in_flight(schedule));
  });
}

TEST_CASE("P39: I and W together do what B does") {
  // ZB-H1 with each I W pair in place is 1F1B if W comes at once, and every rank is busy as long.
  PipelineSchedule split = make_schedule("1f1b", {.num_ranks = 4, .num_microbatches = 6});
  const Timeline whole = timeline(split, equal_costs(2, 3, 5));
  for (std::vector<Action>& cells : split.actions) {
    std::vector<Action> halves;
    for (const Action& action : cells) {
      if (action.kind != ActionKind::backward) {
        halves.push_back(action);
        continue;
      }
      halves.push_back(make_action(ActionKind::backward_input, action.chunk, action.microbatch));
      halves.push_back(make_action(ActionKind::backward_weight, action.chunk, action.microbatch));
    }
    cells = halves;
  }
  const Timeline halves = timeline(split, equal_costs(2, 3, 5));
  const Timeline zero_bubble = timeline(
      make_schedule("zb_h1", {.num_ranks = 4, .num_microbatches = 6}), equal_costs(2, 3, 5));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(halves.ranks[rank].busy == whole.ranks[rank].busy);
    CHECK(zero_bubble.ranks[rank].busy == whole.ranks[rank].busy);
    CHECK(halves.ranks[rank].peak_in_flight == whole.ranks[rank].peak_in_flight);
  }
  // The gradient is sent after I already.
  CHECK(halves.makespan < whole.makespan);
}

TEST_CASE("P42: stages may differ, and a step may have fewer microbatches than ranks") {
  // Stage 1 is the slow one: once it has its first microbatch it never waits, M (F+B) = 2 x 30, and
  // then the last gradient goes through stage 0, B = 2.
  const ScheduleCosts uneven{{{1, 1, 1}, {10, 10, 10}, {2, 1, 1}}, 0};
  const Timeline times =
      timeline(make_schedule("gpipe", {.num_ranks = 3, .num_microbatches = 2}), uneven);
  // F: rank 0 [0,2], rank 1 [1,21], rank 2 [11,13] [21,23]; B: rank 2 [23,27], rank 1 [25,65],
  // rank 0 [45,47] [65,67].
  CHECK(times.makespan == 67);
  CHECK(times.ranks[1].idle == 67 - 60);
  CHECK(times.ranks[1].idle_in_span == 4);
  const Timeline lonely = timeline(make_schedule("1f1b", {.num_ranks = 8, .num_microbatches = 1}),
                                   equal_costs(1, 1, 1));
  CHECK(lonely.makespan == 8 * 3);
}

TEST_CASE("costs that make no sense are refused") {
  const PipelineSchedule schedule = make_schedule("gpipe", {.num_ranks = 3, .num_microbatches = 2});
  CHECK(error_of(schedule, {{{}, {}}, 0}) == "E0757: 2 stage costs for 3 stages");
  CHECK(error_of(schedule, {{}, 0}) == "E0757: 0 stage costs for 3 stages");
  CHECK(error_of(schedule, equal_costs(1, -2, 1)) == "E0757: a cost of a schedule is -2");
  CHECK(error_of(schedule, equal_costs(1, 1, 1, -1)) == "E0757: a cost of a schedule is -1");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(error_of(schedule, equal_costs(kMost, kMost, kMost)).starts_with("E0758"));
  CHECK(error_of(schedule, equal_costs(1, 1, 1, kMost / 8)).starts_with("E0758"));
  CHECK(error_of(schedule, equal_costs(0, 0, 0)).empty());
}

}  // namespace shardsim::test
