#include <catch2/catch.hpp>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_text.hpp"
#include "strategies/pipeline/validate.hpp"

#include "tests/strategies/pipeline_fixture.hpp"

// Where sends and receives go, and how many there are.
namespace shardsim::test {

namespace {

std::string lowered_text(std::string_view name, const PipelineShape& shape) {
  return to_text(lower(make_schedule(name, shape)));
}

int count_sends(const PipelineSchedule& schedule) {
  int sends = 0;
  int receives = 0;
  for (const std::vector<Action>& cells : schedule.actions) {
    for (const Action& action : cells) {
      sends += is_send(action.kind) ? 1 : 0;
      receives += is_receive(action.kind) ? 1 : 0;
    }
  }
  CHECK(sends == receives);
  return sends;
}

}  // namespace

TEST_CASE("a receive is posted one compute action ahead, a send when its tensor is made") {
  CHECK(lowered_text("1f1b", {.num_ranks = 2, .num_microbatches = 3}) ==
        "schedule 1f1b: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0      0RECV_B0 0SEND_F0 0F1      0SEND_F1 0B0      0RECV_B1 0F2      0RECV_B2 "
        "0SEND_F2 0B1      0B2\n"
        "rank 1: 1RECV_F0 1F0      1RECV_F1 1B0      1SEND_B0 1F1      1RECV_F2 1B1      1SEND_B1 "
        "1F2      1B2      1SEND_B2\n");
}

TEST_CASE("weight gradients send nothing, and a receive may hide behind one") {
  CHECK(lowered_text("zb_h1", {.num_ranks = 2, .num_microbatches = 2}) ==
        "schedule zb_h1: 2 ranks, 1 chunks, 2 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0      0RECV_B0 0SEND_F0 0F1      0SEND_F1 0I0      0RECV_B1 0W0      0I1      "
        "0W1\n"
        "rank 1: 1RECV_F0 1F0      1RECV_F1 1I0      1SEND_B0 1F1      1I1      1SEND_B1 1W0      "
        "1W1\n");
}

TEST_CASE("a block waits for both of its receives, and sends when it has ended") {
  CHECK(to_text(lower(parse_schedule_text(
            "schedule own: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n"
            "rank 0: 0F0 0F1 0F2& 0B0 0B1 0B2\n"
            "rank 1: 1F0 1B0 1F1& 1B9 1F2 1B2\n"))) ==
        "schedule own: 2 ranks, 1 chunks, 3 microbatches, loop placement, 2 sends in flight\n"
        "rank 0: 0F0      0RECV_B0 0SEND_F0 0F1      0RECV_B1 0SEND_F1 0F2&     0B0      0RECV_B2 "
        "0SEND_F2 0B1      0B2\n"
        "rank 1: 1RECV_F0 1F0      1RECV_F1 1B0      1RECV_F2 1SEND_B0 1F1&     1B9      "
        "1SEND_B9 1F2      1B2      1SEND_B2\n");
}

TEST_CASE("chunks of one rank hand over in place") {
  CHECK(count_sends(lower(make_schedule("looped_bfs", {1, 3, 4}))) == 0);
  CHECK(count_sends(lower(make_schedule("interleaved_1f1b", {1, 2, 4}))) == 0);
}

TEST_CASE("P41: every boundary between ranks carries each microbatch once each way") {
  for_each_schedule([](const PipelineSchedule& schedule) {
    INFO(to_text(schedule));
    CHECK(count_sends(lower(schedule)) ==
          2 * schedule.shape.num_microbatches * num_boundaries(schedule));
  });
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const PipelineSchedule lowered = lower(v_shaped_gpipe(ranks, 5));
    CHECK(count_sends(lowered) == 2 * 5 * 2 * (ranks - 1));
    CHECK(validate(lowered).empty());
  }
}

TEST_CASE("a lowered schedule is the same schedule, told in more detail") {
  for_each_schedule([](const PipelineSchedule& schedule) {
    const LoweredSchedule lowered = lower_with_origins(schedule);
    for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      std::vector<Action> computed;
      for (std::size_t cell = 0; cell < lowered.schedule.actions[rank].size(); ++cell) {
        const Action& action = lowered.schedule.actions[rank][cell];
        const auto origin = static_cast<std::size_t>(lowered.origins[rank][cell]);
        if (is_compute(action.kind)) {
          CHECK(origin == computed.size());
          computed.push_back(action);
        }
        CHECK((!is_compute(action.kind) || action == schedule.actions[rank][origin]));
        CHECK(schedule.actions[rank][origin].microbatch == action.microbatch);
        CHECK(schedule.actions[rank][origin].chunk == action.chunk);
      }
      CHECK(computed == schedule.actions[rank]);
    }
  });
}

}  // namespace shardsim::test
