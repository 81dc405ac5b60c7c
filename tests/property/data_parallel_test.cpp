#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Data-parallel ranks that do something else than summing every gradient in every step: where each
// choice is neutral it is synchronous training in every bit; what it sends and keeps are closed
// formulas; and a plan is the run.
namespace shardsim::test {

namespace {

constexpr std::int64_t kDouble = 8;  // Bytes of fp64.

// Weights are whole numbers and all divisors powers of two: see "P15: on whole numbers".
TrainingCase draw_exact_case() {
  TrainingCase c;
  c.name = "integer mlp";
  c.model = small_model("integer mlp");
  c.model.num_layers = 1;
  c.model.hidden_size = *rc::gen::inRange<std::int64_t>(1, 6);
  c.mesh.dp_shard = *rc::gen::element(1, 2);
  c.mesh.dp_replicate = *rc::gen::element(2, 4);
  c.optimizer_options = {.learning_rate = 0.0625, .weight_decay = 0.0};
  c.training.steps = 2;
  c.training.num_microbatches = *rc::gen::element<std::int64_t>(1, 2);
  c.training.seed = *rc::gen::inRange<std::uint64_t>(1, 100000);
  c.bucket_bytes = *rc::gen::inRange<std::int64_t>(1, 3000);
  c.first_bucket_bytes = *rc::gen::inRange<std::int64_t>(1, 1000);
  return c;
}

// Of every rank; gradients of a replica are means over fewer samples, and may differ.
void expect_equal_weights(const TrainingCase& a, const TrainingCase& b) {
  RC_LOG() << describe(a) << "\n";
  const TrainingResult first = run(a);
  const TrainingResult second = run(b);
  for (std::size_t rank = 0; rank < first.ranks.size(); ++rank) {
    for (std::size_t step = 0; step < first.ranks[rank].steps.size(); ++step) {
      StepRecord of_first = first.ranks[rank].steps[step];
      StepRecord of_second = second.ranks[rank].steps[step];
      RC_ASSERT(of_first.loss == of_second.loss);
      const Values& weights = of_first.values["parameter"];
      const Values& others = of_second.values["parameter"];
      for (std::size_t i = 0; i < weights.size(); ++i) {
        for (std::size_t j = 0; j < weights[i].size(); ++j) {
          const bool held = !std::isnan(weights[i][j]);
          RC_ASSERT(held == !std::isnan(others[i][j]));
          if (held) RC_ASSERT(weights[i][j] == others[i][j]);
        }
      }
    }
  }
}

GradientCompression draw_compression() {
  return {.kind = *rc::gen::element(CompressionKind::top_k, CompressionKind::int8),
          .ratio = *rc::gen::element(0.01, 0.1, 0.5, 1.0),
          .block_size = *rc::gen::element<std::int64_t>(1, 7, 256),
          .error_feedback = *rc::gen::arbitrary<bool>()};
}

TrainingCase draw_compressed_case() {
  TrainingCase c = draw_case();
  c.zero_stage = 0;
  c.sync.compression = draw_compression();
  return c;
}

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

std::int64_t of(const MemoryUse& use, MemoryCategory category) {
  return use.at(static_cast<std::size_t>(category));
}

TrainingCase without_data(TrainingCase c) {
  c.world.has_data = false;
  return c;
}

// What a rank sends of its gradients in a step.
std::int64_t parcel_bytes(const TrainingCase& c) {
  const std::unique_ptr<Model> model = make_model(c.model);
  const GradientCompression& rule = c.sync.compression;
  std::int64_t bytes = 0;
  for (const FlatChunk& bucket : layout_of(c, *model).chunks()) {
    if (rule.kind == CompressionKind::top_k) {
      const auto kept =
          static_cast<std::int64_t>(std::ceil(rule.ratio * static_cast<double>(bucket.numel)));
      bytes += kept * (size_of(c.sync.gradient_dtype) + 4);
    } else {
      bytes += bucket.numel + 4 * ((bucket.numel + rule.block_size - 1) / rule.block_size);
    }
  }
  return bytes;
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

TEST_CASE("to send the largest of all elements is synchronous training, in every bit") {
  check_property(60, [] {
    TrainingCase c = draw_exact_case();
    const TrainingCase synchronous = c;
    c.sync.compression = {.kind = CompressionKind::top_k, .ratio = 1.0};
    expect_equal_weights(c, synchronous);
  });
}

TEST_CASE("all ranks of a compressed training hold the same bits after every step") {
  check_property(60, [] {
    const TrainingCase c = draw_compressed_case();
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      RC_ASSERT(!merge(c, result, step).values.empty());
    }
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
      for (const RankRecord& rank : result.ranks) {
        versions.insert(rank.steps[step].values.at("parameter"));
      }
      const bool averaged = static_cast<std::int64_t>(step + 1) % c.sync.local.sync_period == 0;
      if (averaged) RC_ASSERT(versions.size() == 1U);
      if (!averaged) RC_ASSERT(versions.size() > 1U);
    }
  });
}

TEST_CASE("what is compressed is sent by the formula, whatever the values are") {
  check_property(100, [] {
    TrainingCase c = draw_compressed_case();
    c.sync.gradient_dtype = *rc::gen::element(DType::fp64, DType::bf16);
    c = without_data(c);
    RC_LOG() << describe(c) << "\n";
    for (const std::int64_t sent : run(c).sent_by_rank) {
      RC_ASSERT(sent == c.training.steps * (c.mesh.size() - 1) * parcel_bytes(c));
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
    // Of ZeRO-1 steps without an update gather no weights.
    if (c.zero_stage == 0) RC_ASSERT(run(c).sent_by_rank == run(in_time).sent_by_rank);
  });
}

TEST_CASE("residuals, outer states and gradients under way are in the ledger") {
  TrainingCase c;
  c.mesh = {1, 2};
  const std::int64_t weights = kDouble * num_parameters(*make_model(c.model));
  const auto persistent = [](const TrainingCase& of_case) {
    return run(without_data(of_case)).ranks.front().persistent;
  };
  CHECK(of(persistent(c), MemoryCategory::optimizer) == 0);
  CHECK(of(persistent(c), MemoryCategory::grads) == weights);
  TrainingCase compressed = c;
  compressed.sync.compression.kind = CompressionKind::int8;
  CHECK(of(persistent(compressed), MemoryCategory::optimizer) == weights);
  compressed.sync.compression.error_feedback = false;
  CHECK(of(persistent(compressed), MemoryCategory::optimizer) == 0);
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
    const TrainingCase cases[] = {draw_compressed_case(), draw_local_case(), draw_late_case()};
    for (const TrainingCase& c : cases) {
      RC_LOG() << describe(c) << "\n";
      RC_ASSERT(run(c).trace_hash == run(without_data(c)).trace_hash);
    }
  });
}

}  // namespace shardsim::test
