#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_text.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/measured_pipeline.hpp"
#include "tests/property/random_schedule.hpp"
#include "tests/strategies/priced_model.hpp"

// The executor, measured. Tests in tests/strategies/pipeline_*_test.cpp compare schedules on paper
// with formulas. Here the engine runs them, and its records must be the same to the picosecond, the
// byte and the order.
namespace shardsim::test {

namespace {

// Which numbers of microbatches: all from 1 to 32, or those where schedules change their shape.
enum class Microbatches { all, some };

bool is_wanted(Microbatches which, int microbatches, int ranks) {
  if (which == Microbatches::all || microbatches <= 3 || microbatches == 32) return true;
  return std::abs(microbatches - ranks) <= 1 || std::abs(microbatches - 2 * ranks) <= 1;
}

template <class Visit>
void for_each_measured(Microbatches which, Visit visit) {
  for_each_schedule([&](const PipelineSchedule& schedule) {
    const auto& [ranks, chunks, microbatches] = schedule.shape;
    if (ranks > 1 && is_wanted(which, microbatches, ranks)) visit(schedule);
  });
}

// Counts of what has been compared, for the line that is printed.
struct Score {
  std::map<std::string, int> schedules;
  std::int64_t ranks = 0;
  std::int64_t cells = 0;

  void add(const PipelineSchedule& lowered) {
    ++schedules[lowered.name];
    ranks += lowered.shape.num_ranks;
    for (const std::vector<Action>& row : lowered.actions) {
      cells += static_cast<std::int64_t>(row.size());
    }
  }
  void print(const char* what) const {
    std::cout << what << ":";
    for (const auto& [name, count] : schedules) std::cout << " " << name << " " << count;
    std::cout << "; " << ranks << " ranks, " << cells << " cells\n";
  }
};

std::string name_of(const PipelineSchedule& schedule, int rank, const Action& action) {
  const int stage = schedule.stage_of(rank, action.chunk);
  if (!is_compute(action.kind)) return {};
  if (action.kind != ActionKind::backward) {
    return to_text(make_action(action.kind, action.chunk, action.microbatch), stage);
  }
  return to_text(make_action(ActionKind::backward_input, action.chunk, action.microbatch), stage) +
         " " +
         to_text(make_action(ActionKind::backward_weight, action.chunk, action.microbatch), stage);
}

// Empty if the executor did, in every cell of every rank, exactly what timeline() says, when it
// says.
std::string difference(const PipelineSchedule& lowered, const MeasuredPipeline& measured,
                       const Timeline& expected) {
  const Timeline& times = measured.timeline;
  for (int rank = 0; rank < lowered.shape.num_ranks; ++rank) {
    const auto row = static_cast<std::size_t>(rank);
    const std::string where = "rank " + std::to_string(rank);
    for (std::size_t cell = 0; cell < lowered.actions[row].size(); ++cell) {
      const Action& action = lowered.actions[row][cell];
      const ActionSpan& is = times.spans[row][cell];
      const ActionSpan& should = expected.spans[row][cell];
      if (is != should) {
        return where + ", cell " + std::to_string(cell) + " (" +
               to_text(action, lowered.stage_of(rank, action.chunk)) +
               "): " + std::to_string(is.start) + " to " + std::to_string(is.end) + ", not " +
               std::to_string(should.start) + " to " + std::to_string(should.end);
      }
      if (measured.computed[row][cell] != name_of(lowered, rank, action)) {
        return where + " computed " + measured.computed[row][cell] + " in cell " +
               std::to_string(cell);
      }
    }
    const RankTimeline& is = times.ranks[row];
    const RankTimeline& should = expected.ranks[row];
    if (is.busy != should.busy) return where + " is busy for " + std::to_string(is.busy);
    if (is.idle != should.idle) return where + " is idle for " + std::to_string(is.idle);
    if (is.idle_in_span != should.idle_in_span) {
      return where + " pauses for " + std::to_string(is.idle_in_span);
    }
    if (is.peak_in_flight != should.peak_in_flight) {
      return where + " has " + std::to_string(is.peak_in_flight) + " activations in flight";
    }
  }
  return times.makespan == expected.makespan ? "" : "makespan " + std::to_string(times.makespan);
}

// At once: two receives posted ahead, the sends under way on both edges, and one tensor that has
// been made and waits to be sent.
// With V placement a rank has twice as many edges, and a block may receive and make two.
int most_messages(const PipelineSchedule& lowered) {
  if (lowered.placement == Placement::v) return 4 + 4 * lowered.sends_in_flight + 2;
  if (lowered.name == "combined_1f1b") return 4 + 2 * lowered.sends_in_flight + 2;
  return 2 + 2 * lowered.sends_in_flight + 1;
}

// Runs it and compares everything that holds for any costs; says what is not as it should be.
std::string compare(const PipelineSchedule& lowered, const ScheduleCosts& costs,
                    const MeasuredPipeline& measured) {
  const std::string differs = difference(lowered, measured, timeline(lowered, costs));
  if (!differs.empty()) return differs;
  for (const int messages : measured.peak_messages) {
    if (messages > most_messages(lowered)) return std::to_string(messages) + " messages at once";
  }
  const std::int64_t sent =
      2 * lowered.shape.num_microbatches * num_boundaries(lowered) * kMessageBytes;
  return measured.bytes_sent == sent ? "" : std::to_string(measured.bytes_sent) + " bytes sent";
}

MeasuredPipeline measure(const PipelineSchedule& lowered, const ScheduleCosts& costs) {
  MeasuredPipeline measured = run_pipeline(lowered, costs);
  const std::string differs = compare(lowered, costs, measured);
  if (!differs.empty()) FAIL(differs << "\n" << to_text(lowered));
  return measured;
}

}  // namespace

TEST_CASE("P36, P37, P41: measured idle time and activations in flight are those of the table") {
  Score score;
  // F = I = W of a rank's share, a multiple of all V up to 4.
  constexpr int kShare = 12;
  for_each_measured(Microbatches::all, [&](const PipelineSchedule& schedule) {
    const PipelineSchedule lowered = lower(schedule);
    const std::int64_t chunk = kShare / schedule.shape.num_chunks;
    const MeasuredPipeline measured = measure(lowered, {{{chunk, chunk, chunk}}, 0});
    INFO(to_text(schedule));
    const std::optional<std::int64_t> idle = expected_idle(schedule, kShare, kShare, kShare);
    REQUIRE(idle.has_value());
    std::int64_t in_span = 0;
    int in_flight = 0;
    for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
      const RankTimeline& of = measured.timeline.ranks[static_cast<std::size_t>(rank)];
      REQUIRE(of.busy == std::int64_t{3} * kShare * schedule.shape.num_microbatches);
      REQUIRE(of.idle == *idle);
      const std::optional<int> chunks = expected_in_flight(schedule, rank);
      if (chunks) REQUIRE(of.peak_in_flight == *chunks);
      in_span = std::max(in_span, of.idle_in_span);
      in_flight = std::max(in_flight, of.peak_in_flight);
    }
    REQUIRE(in_span == *expected_idle_in_span(schedule, kShare, kShare, kShare));
    REQUIRE(in_flight == expected_peak_in_flight(schedule));
    score.add(lowered);
  });
  score.print("P37: measured equal to the table");
  // p 2..8 with M 1..32: three schedules of one chunk; looped BFS with V 1..4; interleaved for the
  // 16 + 10 + 8 + 6 + 5 + 4 + 4 multiples of p, and so combined; from 2p-1 or 2p microbatches on
  // the others.
  CHECK(score.schedules == std::map<std::string, int>{{"gpipe", 224},
                                                      {"1f1b", 224},
                                                      {"zb_h1", 224},
                                                      {"looped_bfs", 4 * 224},
                                                      {"interleaved_1f1b", 4 * 53},
                                                      {"combined_1f1b", 4 * 53},
                                                      {"zb_h2", 168},
                                                      {"zb_v", 168},
                                                      {"v_half", 168},
                                                      {"v_min", 168},
                                                      {"dualpipe_v", 161}});
}

TEST_CASE("P37, P39: measured idle time follows the formulas for unequal F, I and W") {
  Score score;
  for (const auto& [f, i, w] : {std::array{36, 48, 24}, {24, 36, 60}}) {
    for_each_measured(
        Microbatches::some, [&, f = f, i = i, w = w](const PipelineSchedule& schedule) {
          const PipelineSchedule lowered = lower(schedule);
          const std::int64_t v = schedule.shape.num_chunks;
          const MeasuredPipeline measured = measure(lowered, {{{f / v, i / v, w / v}}, 0});
          INFO(to_text(schedule));
          const std::optional<std::int64_t> idle = expected_idle(schedule, f, i, w);
          for (const RankTimeline& rank : measured.timeline.ranks) {
            REQUIRE(rank.busy == std::int64_t{f + i + w} * schedule.shape.num_microbatches);
            if (idle) REQUIRE(rank.idle == *idle);
          }
          score.add(lowered);
        });
  }
  score.print("P37: measured equal to the formulas, F, I and W unequal");
}

TEST_CASE("P42: with slow messages and uneven stages the executor follows the protocol") {
  Score score;
  // A message that hides behind a chunk, and one that takes longer than two.
  for (const std::int64_t message : {3, 40}) {
    for_each_measured(Microbatches::some, [&](const PipelineSchedule& schedule) {
      const PipelineSchedule lowered = lower(schedule);
      ScheduleCosts costs{{{5, 7, 3}}, message};
      (void)measure(lowered, costs);
      // Every third stage is slow, every fourth takes no time at all.
      costs.stages.clear();
      for (int stage = 0; stage < schedule.num_stages(); ++stage) {
        const std::int64_t slow = stage % 3 == 1 ? 4 : 1;
        costs.stages.push_back(stage % 4 == 3 ? StageCosts{0, 0, 0}
                                              : StageCosts{5 * slow, 7 * slow, 3 + stage});
      }
      (void)measure(lowered, costs);
      score.add(lowered);
      score.add(lowered);
    });
  }
  score.print("P42: executor equal to the protocol");
}

TEST_CASE("P42: the executor follows the protocol for any times and any sends in flight") {
  Score score;
  check_property(300, [&] {
    PipelineSchedule schedule = draw_schedule(2);
    schedule.sends_in_flight += draw(0, 1);
    const PipelineSchedule lowered = lower(schedule);
    const ScheduleCosts costs = draw_costs(schedule);
    RC_LOG() << to_text(lowered);
    const std::string differs = compare(lowered, costs, run_pipeline(lowered, costs));
    RC_LOG() << differs << "\n";
    RC_ASSERT(differs.empty());
    score.add(lowered);
  });
  score.print("P42: executor equal to the protocol at random");
}

}  // namespace shardsim::test
