#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/property/exact_case.hpp"
#include "tests/property/random_case.hpp"

// Data-parallel ranks that do something else than summing every gradient in every step: where each
// choice is neutral it is synchronous training in every bit; what it sends and keeps are closed
// formulas; and a plan is the run.
namespace shardsim::test {

namespace {

TrainingCase draw_local_case() {
  TrainingCase c = draw_case();
  c.mesh = *rc::gen::element(MeshShape{1, 2}, MeshShape{2, 2}, MeshShape{3, 2}, MeshShape{2, 4});
  c.training.steps = *rc::gen::inRange<std::int64_t>(1, 7);
  c.sync.local = {.sync_period = *rc::gen::inRange<std::int64_t>(1, 4),
                  .outer_optimizer = *rc::gen::arbitrary<bool>()};
  return c;
}

TrainingCase draw_late_case() {
  TrainingCase c = draw_case();
  c.zero_stage = *rc::gen::inRange(0, 2);
  c.sync.max_staleness = *rc::gen::inRange(0, 4);
  return c;
}

}  // namespace

TEST_CASE("averaging after each step of SGD is synchronous training, in every bit") {
  check_property(60, [] {
    TrainingCase c = draw_exact_case();
    c.zero_stage = *rc::gen::inRange(0, 4);
    const TrainingCase synchronous = c;
    c.sync.local = {.sync_period = 1};
    if (*rc::gen::arbitrary<bool>()) {
      c.sync.local.outer_optimizer = true;
      c.sync.local.outer_learning_rate = 1.0;
      c.sync.local.outer_momentum = 0.0;
    }
    expect_equal_weights(c, synchronous);
  });
}

TEST_CASE("replicas hold the same weights after an average, and others before the next") {
  check_property(40, [] {
    TrainingCase c = draw_local_case();
    c.mesh = {1, *rc::gen::element(2, 3, 4)};
    c.zero_stage = 0;
    c.training.ignore_fraction = 0.0;  // Without targets there are no gradients to differ.
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      std::set<Values> versions;
      std::set<Values> gradients;  // Drawn samples may be the same ones.
      for (const RankRecord& rank : result.ranks) {
        versions.insert(rank.steps[step].values.at("parameter"));
        gradients.insert(rank.steps[step].values.at("gradient"));
      }
      const bool averaged = static_cast<std::int64_t>(step + 1) % c.sync.local.sync_period == 0;
      if (averaged) RC_ASSERT(versions.size() == 1U);
      if (!averaged && gradients.size() > 1U) RC_ASSERT(versions.size() > 1U);
    }
  });
}

TEST_CASE("a period's average is one all_reduce of what a rank owns of the weights") {
  check_property(100, [] {
    const TrainingCase c = without_data(draw_local_case());
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    const std::int64_t weights = kDouble * num_parameters(*make_model(c.model));
    const std::int64_t copies = c.zero_stage == 0 ? c.mesh.dp_shard : 1;
    const std::int64_t averages = c.training.steps / c.sync.local.sync_period;
    // Over each ring 2 (R - 1) times what it has.
    RC_ASSERT(result.traffic.at("dp_replicate").payload_sent ==
              averages * 2 * (c.mesh.dp_replicate - 1) * copies * weights);
    // Losses and counts of targets alone cross replicas otherwise.
    RC_ASSERT(result.traffic.at("dp").payload_sent == 0);
  });
}

TEST_CASE("late gradients send what gradients in time do") {
  check_property(60, [] {
    TrainingCase c = without_data(draw_late_case());
    c.sync.max_staleness = 3;
    TrainingCase in_time = c;
    in_time.sync.max_staleness = 0;
    RC_LOG() << describe(c) << "\n";
    // Steps without an update gather no weights at ZeRO-1.
    if (c.zero_stage == 0) RC_ASSERT(run(c).sent_by_rank == run(in_time).sent_by_rank);
  });
}

TEST_CASE("outer states and gradients under way are in the ledger") {
  TrainingCase c;
  c.mesh = {1, 2};
  const std::int64_t weights = kDouble * num_parameters(*make_model(c.model));
  const auto persistent = [](const TrainingCase& of_case) {
    return run(without_data(of_case)).ranks.front().persistent;
  };
  CHECK(of(persistent(c), MemoryCategory::optimizer) == 0);
  CHECK(of(persistent(c), MemoryCategory::grads) == weights);
  TrainingCase local = c;
  local.sync.local.sync_period = 2;
  CHECK(of(persistent(local), MemoryCategory::optimizer) == 0);
  local.sync.local.outer_optimizer = true;
  CHECK(of(persistent(local), MemoryCategory::optimizer) == 2 * weights);
  TrainingCase late = c;
  late.sync.max_staleness = 3;
  CHECK(of(persistent(late), MemoryCategory::grads) == 4 * weights);
}

TEST_CASE("a reduction that is applied late runs beside the next step") {
  TrainingCase c;
  c.model.num_layers = 4;
  c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 64;
  c.training.steps = 8;
  c = without_data(c);
  c.sync.overlap_reduce = false;  // Nothing but lateness hides anything.
  c.world.cluster = test_cluster(4);
  c.world.cluster.device.launch_s = 5e-6;  // A step computes for longer than it communicates.
  const auto spent = [](const TrainingCase& of_case) {
    const TrainingResult result = run(of_case);
    return std::pair(result.ranks[0].end - result.ranks[0].begin, result.ranks[0].split);
  };
  // At stage 0 nothing but reductions is sent, but for losses. At stage 1 half of what is sent
  // gathers weights, which is waited for; a quarter is left for latencies and losses.
  const std::pair<MeshShape, int> layouts[] = {{{1, 4}, 0}, {{4, 1}, 1}, {{2, 2}, 1}};
  for (const auto& [mesh, zero_stage] : layouts) {
    c.mesh = mesh;
    c.zero_stage = zero_stage;
    INFO("stage " << zero_stage << ", shards " << mesh.dp_shard);
    const auto [in_time, split] = spent(c);
    TrainingCase late = c;
    late.sync.max_staleness = 1;
    const auto [beside, late_split] = spent(late);
    CHECK(beside < in_time);
    const std::int64_t percent = zero_stage == 0 ? 50 : 75;
    CHECK(100 * late_split.exposed_comm.picoseconds() < percent * split.exposed_comm.picoseconds());
    // As much is computed but for the first update, which has nothing to apply.
    CHECK(late_split.compute <= split.compute);
    CHECK(beside >= late_split.compute);
  }
}

TEST_CASE("plans of all choices are the runs: same trace hash with and without numbers") {
  check_property(60, [] {
    const TrainingCase cases[] = {draw_local_case(), draw_late_case()};
    for (const TrainingCase& c : cases) {
      RC_LOG() << describe(c) << "\n";
      RC_ASSERT(run(c).trace_hash == run(without_data(c)).trace_hash);
    }
  });
}

}  // namespace shardsim::test
