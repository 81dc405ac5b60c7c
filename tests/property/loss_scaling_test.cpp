#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/model_wrapper.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// A step in which one gradient of one rank overflows is no step, on any rank, under any layout. In
// fp64 a loss scale that is a power of two changes no bit, so this can be held exactly.
namespace shardsim::test {

namespace {

using IsMeant = bool (*)(const ParameterSpec&);
bool any_parameter(const ParameterSpec&) { return true; }

/// Where and when a gradient becomes infinite, or large. A rank of -1: nowhere.
struct Overflow {
  int rank = -1;
  std::size_t step = 0;  // Among those that are trained.
  double value = std::numeric_limits<double>::infinity();
  IsMeant is_meant = any_parameter;
  int other_rank = -1;  // There, too.
};

// The first gradient of those meant that backward computes on this stage in an armed step has one
// bad element.
class Overflowing final : public ModelWrapper {
 public:
  Overflowing(const Model& inner, const Overflow& overflow)
      : ModelWrapper(inner), value_(overflow.value), is_meant_(overflow.is_meant) {}

  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    const std::span<const int> parameters = inner_.parameters_of(module);
    for (auto at = parameters.rbegin(); armed && at != parameters.rend(); ++at) {
      if (!is_meant_(inner_.parameters()[static_cast<std::size_t>(*at)])) continue;
      context.parameters.gradient(*at).set(0, value_);
      armed = false;
    }
    return inner_.backward(module, context, output_gradient, batch, saved);
  }

  mutable bool armed = false;  // One instance per rank.

 private:
  double value_;
  IsMeant is_meant_;
};

/// An optimizer that remembers which steps it was told to make.
class Counting final : public Optimizer {
 public:
  Counting(std::unique_ptr<Optimizer> inner, std::set<std::int64_t>& steps)
      : inner_(std::move(inner)), steps_(steps) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] const OptimizerOptions& options() const override { return inner_->options(); }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    return inner_->state_names();
  }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale,
            std::int64_t step) const override {
    steps_.insert(step);
    inner_->step(runtime, parameter, gradient, state, gradient_scale, step);
  }

 private:
  std::unique_ptr<Optimizer> inner_;
  std::set<std::int64_t>& steps_;
};

struct SeenScales {
  std::vector<bool> skipped;
  std::vector<double> next_scales;
};

class ScaleWatcher final : public TrainingObserver {
 public:
  explicit ScaleWatcher(SeenScales& seen) : seen_(seen) {}
  void step_decided(std::int64_t, bool skipped, double next_scale) override {
    seen_.skipped.push_back(skipped);
    seen_.next_scales.push_back(next_scale);
  }

 private:
  SeenScales& seen_;
};

using Bits = std::vector<std::uint64_t>;

// Everything a rank keeps from step to step, to the bit.
Bits bits_of(const GradientSync& sync) {
  Bits bits;
  for (const StateKind kind : {StateKind::parameter, StateKind::optimizer_state}) {
    sync.visit(kind, [&](const StatePiece& piece) {
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
        bits.push_back(std::bit_cast<std::uint64_t>(piece.values.get(i)));
      }
    });
  }
  return bits;
}

struct RankOutcome {
  SeenScales seen;
  std::vector<Bits> after;  // Each step.
  TrainingProgress progress;
};

// Trains the steps listed, each with the data of its number.
// `updates`: the numbers by which the optimizer knows its steps.
std::vector<RankOutcome> train_steps(const TrainingCase& c, const std::vector<std::int64_t>& steps,
                                     const Overflow& overflow, std::set<std::int64_t>& updates) {
  const Counting optimizer(make_optimizer(c.optimizer, c.optimizer_options), updates);
  const ParallelPlan plan(options_of(c), optimizer);
  std::vector<RankOutcome> ranks(static_cast<std::size_t>(c.mesh.size()));
  FiberOptions options = c.world;
  options.cluster = test_cluster(c.mesh.size());
  options.cluster.device.host_bytes_per_s = 1e12;
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& communicator) {
    RankOutcome& rank = ranks[static_cast<std::size_t>(communicator.rank())];
    Mesh mesh(communicator, plan.options().mesh);
    const std::unique_ptr<GradientSync> sync = plan.make_sync(runtime, mesh);
    const RankParallel parallel = plan.make_parallel(mesh);
    const Overflowing model(*plan.part(mesh.place()).model, overflow);
    ScaleWatcher watcher(rank.seen);
    const StagePlan stage{.model = &model,
                          .schedule = &plan.schedule(),
                          .micro_batch_size = c.training.micro_batch_size};
    TrainingSession session(runtime, mesh, stage, *sync, parallel.ends(), c.training, watcher);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const int rank_here = communicator.rank();
      model.armed =
          overflow.step == i && (overflow.rank == rank_here || overflow.other_rank == rank_here);
      session.compute_gradients(steps[i]);
      session.reduce_gradients();
      session.update();
      rank.after.push_back(bits_of(*sync));
    }
    rank.progress = session.progress();
  });
  return ranks;
}

std::vector<RankOutcome> train_steps(const TrainingCase& c, const std::vector<std::int64_t>& steps,
                                     const Overflow& overflow) {
  std::set<std::int64_t> updates;
  return train_steps(c, steps, overflow, updates);
}

MeshShape draw_any_mesh() {
  return *rc::gen::element(MeshShape{.dp_shard = 2}, MeshShape{.dp_shard = 3, .dp_replicate = 2},
                           MeshShape{.dp_replicate = 3}, MeshShape{.tp = 2},
                           MeshShape{.dp_shard = 2, .tp = 2}, MeshShape{.pp = 2},
                           MeshShape{.pp = 3}, MeshShape{.dp_shard = 2, .pp = 2},
                           MeshShape{.tp = 2, .pp = 2}, MeshShape{.dp_shard = 2, .tp = 2, .pp = 2},
                           MeshShape{.dp_replicate = 2, .tp = 2, .pp = 2});
}

TrainingCase draw_any_case() {
  TrainingCase c;
  c.name = *rc::gen::element<std::string>("gpt2", "llama");
  c.model = small_model(c.name);
  c.model.vocab_size = 12;
  c.model.num_layers = 3;
  c.mesh = draw_any_mesh();
  c.zero_stage = *rc::gen::inRange(0, 4);
  c.optimizer = *rc::gen::element<std::string>("sgd", "momentum", "adamw");
  c.training.num_microbatches = *rc::gen::inRange<std::int64_t>(1, 4);
  c.training.ignore_fraction = *rc::gen::element(0.0, 0.3);
  c.training.max_grad_norm = *rc::gen::element(0.0, 0.1);
  c.sync.reduce_every_microbatch = *rc::gen::arbitrary<bool>();
  c.sync.offload_optimizer = *rc::gen::arbitrary<bool>();
  c.sync.offload_gradients = c.zero_stage >= 2 && *rc::gen::arbitrary<bool>();
  c.sync.offload_parameters = c.zero_stage == 3 && *rc::gen::arbitrary<bool>();
  draw_schedule(c);
  c.training.loss_scaling = {.mode = LossScaling::Mode::dynamic,
                             .initial_scale = 1024.0,
                             .growth_interval = *rc::gen::inRange<std::int64_t>(1, 4),
                             .hysteresis = *rc::gen::inRange<std::int64_t>(1, 3)};
  return c;
}

// The scales that the rule gives for these steps.
std::vector<double> expected_scales(const LossScaling& rule, std::size_t steps,
                                    const Overflow& overflow) {
  std::vector<double> scales;
  LossScaleState state = initial_state(rule);
  for (std::size_t i = 0; i < steps; ++i) {
    state = next_state(rule, state, overflow.rank >= 0 && overflow.step == i);
    scales.push_back(state.scale);
  }
  return scales;
}

}  // namespace

TEST_CASE("an overflow on one rank skips the step on all, and changes no bit") {
  check_property(150, [] {
    const TrainingCase c = draw_any_case();
    const Overflow overflow{.rank = *rc::gen::inRange(0, c.mesh.size()),
                            .step = *rc::gen::inRange<std::size_t>(0, 4),
                            .value = *rc::gen::element(std::numeric_limits<double>::infinity(),
                                                       -std::numeric_limits<double>::infinity(),
                                                       std::numeric_limits<double>::quiet_NaN())};
    RC_LOG() << describe(c) << ", overflow on rank " << overflow.rank << " in step "
             << overflow.step << "\n";
    const std::vector<RankOutcome> ranks = train_steps(c, {0, 1, 2, 3}, overflow);
    for (const RankOutcome& rank : ranks) {
      for (std::size_t step = 0; step < 4; ++step) {
        RC_ASSERT(rank.seen.skipped[step] == (step == overflow.step));
        if (step == 0) continue;
        const bool same = rank.after[step] == rank.after[step - 1];
        RC_ASSERT(same == (step == overflow.step));
      }
      RC_ASSERT(rank.seen.next_scales == expected_scales(c.training.loss_scaling, 4, overflow));
      RC_ASSERT(rank.progress.updates == 3);
    }
  });
}

// Also the optimizer's count of steps: Adam's corrections depend on it.
TEST_CASE("a run with a skipped step is bitwise one that never had its batch, nor a scale") {
  check_property(100, [] {
    TrainingCase c = draw_any_case();
    const Overflow overflow{.rank = *rc::gen::inRange(0, c.mesh.size()),
                            .step = *rc::gen::inRange<std::size_t>(0, 4)};
    RC_LOG() << describe(c) << ", overflow on rank " << overflow.rank << " in step "
             << overflow.step << "\n";
    std::set<std::int64_t> updates;
    const std::vector<RankOutcome> skipping = train_steps(c, {0, 1, 2, 3}, overflow, updates);
    RC_ASSERT(updates == (std::set<std::int64_t>{1, 2, 3}));
    std::vector<std::int64_t> others = {0, 1, 2, 3};
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(overflow.step));
    c.training.loss_scaling = {};
    const std::vector<RankOutcome> plain = train_steps(c, others, {});
    for (std::size_t rank = 0; rank < plain.size(); ++rank) {
      const bool same = skipping[rank].after.back() == plain[rank].after.back();
      RC_ASSERT(same);
      RC_ASSERT(plain[rank].progress.updates == 3);
    }
  });
}

TEST_CASE("gradients of fp16 overflow by themselves, and the scale comes down until none does") {
  for (const MeshShape& mesh :
       {MeshShape{}, MeshShape{.dp_shard = 2, .tp = 2}, MeshShape{.dp_replicate = 2, .pp = 2}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      TrainingCase c;
      c.name = "gpt2";
      c.model = small_model("gpt2", DType::fp16);
      c.model.vocab_size = 12;
      c.mesh = mesh;
      c.zero_stage = stage;
      c.sync.weight_dtype = c.sync.gradient_dtype = DType::fp16;
      c.sync.master_dtype = DType::fp32;
      c.training.num_microbatches = 2;
      // Gradients of a mean are about 0.1, and the largest fp16 is 65504.
      c.training.loss_scaling = {.mode = LossScaling::Mode::dynamic, .initial_scale = 0x1p26};
      INFO(describe(c));
      const std::vector<RankOutcome> ranks =
          train_steps(c, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {});
      for (const RankOutcome& rank : ranks) {
        CHECK(rank.seen.skipped == ranks.front().seen.skipped);
        CHECK(rank.seen.skipped.front());
        CHECK_FALSE(rank.seen.skipped.back());
        const auto skips = std::count(rank.seen.skipped.begin(), rank.seen.skipped.end(), true);
        CHECK(rank.progress.loss_scale.scale == std::ldexp(0x1p26, -static_cast<int>(skips)));
        CHECK(rank.progress.updates == 12 - skips);
      }
    }
  }
}

// Two ranks whose parts of a gradient are finite in fp16, the largest of which is 65504; their sum
// is not, and is made only when data-parallel reductions have ended.
TEST_CASE("an overflow that arises in the sums over tensor-parallel ranks or tied stages skips") {
  struct Sum {
    const char* what;
    MeshShape mesh;
    bool sequence_parallel;
    MeshPlace other;  // The first part is at the mesh's origin.
    IsMeant is_meant;
  };
  const IsMeant tied = [](const ParameterSpec& spec) { return spec.tied; };
  const IsMeant norm = [](const ParameterSpec& spec) {
    return spec.sum_over_tp && spec.name.find("norm") != std::string::npos;
  };
  const std::vector<Sum> sums = {
      {"tied embedding", {.pp = 2}, false, {.pp = 1}, tied},
      {"tied embedding", {.dp_shard = 2, .tp = 2, .pp = 3}, false, {.pp = 2}, tied},
      {"norm", {.tp = 2}, true, {.tp = 1}, norm},
      {"norm", {.dp_shard = 2, .tp = 2, .pp = 2}, true, {.tp = 1}, norm}};
  for (const Sum& sum : sums) {
    for (int stage = 0; stage <= 3; ++stage) {
      TrainingCase c;
      c.name = "gpt2";
      c.model = small_model("gpt2", DType::fp16);
      c.model.vocab_size = c.model.seq_len = c.model.max_position_embeddings = 12;
      c.model.num_layers = 3;
      c.model.sequence_parallel = sum.sequence_parallel;
      c.mesh = sum.mesh;
      c.zero_stage = stage;
      c.sync.weight_dtype = c.sync.gradient_dtype = DType::fp16;
      c.sync.master_dtype = DType::fp32;
      c.training.num_microbatches = 2;
      c.training.loss_scaling = {.mode = LossScaling::Mode::dynamic, .initial_scale = 256.0};
      INFO(sum.what << ": " << describe(c));
      Overflow overflow{.rank = c.mesh.rank_of({}),
                        .step = 1,
                        .value = 40000.0,
                        .is_meant = sum.is_meant,
                        .other_rank = c.mesh.rank_of(sum.other)};
      for (const RankOutcome& rank : train_steps(c, {0, 1, 2}, overflow)) {
        CHECK(rank.seen.skipped == std::vector<bool>{false, true, false});
        const bool same = rank.after[1] == rank.after[0];
        CHECK(same);
      }
      // Either part alone is no overflow.
      for (const int rank_alone : {overflow.rank, overflow.other_rank}) {
        overflow.rank = overflow.other_rank = rank_alone;
        for (const RankOutcome& rank : train_steps(c, {0, 1}, overflow)) {
          CHECK(rank.seen.skipped == std::vector<bool>{false, false});
          const bool same = rank.after[1] == rank.after[0];
          CHECK_FALSE(same);
        }
      }
    }
  }
}

// One number of 4 bytes per axis that owns different gradients; on a ring of N ranks an all_reduce
// of one element sends 2 (N-1) in all.
TEST_CASE("P18: looking for overflows costs one scalar per axis, and only with loss scaling") {
  for (const MeshShape& mesh :
       {MeshShape{}, MeshShape{.dp_shard = 4, .dp_replicate = 2}, MeshShape{.dp_shard = 3, .tp = 2},
        MeshShape{.dp_shard = 2, .dp_replicate = 2, .tp = 4, .pp = 2}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const bool has_data : {true, false}) {
        TrainingCase c;
        c.name = "gpt2";
        c.model = small_model("gpt2");
        c.model.vocab_size = 12;
        c.mesh = mesh;
        c.zero_stage = stage;
        c.record = false;
        c.training.steps = 3;
        c.training.num_microbatches = 2;
        c.world.has_data = has_data;
        c.world.all_reduce_algorithm = Algorithm::ring;
        INFO(describe(c));
        const auto total = [](const TrainingResult& result) {
          TrafficCounters sum;
          for (const auto& [_, counters] : result.traffic) {
            sum.payload_sent += counters.payload_sent;
            sum.calls += counters.calls;
            sum.scalar_sent += counters.scalar_sent;
            sum.scalar_calls += counters.scalar_calls;
          }
          return sum;
        };
        const TrafficCounters without = total(run(c));
        c.training.loss_scaling.mode = LossScaling::Mode::dynamic;
        const TrafficCounters with = total(run(c));
        CHECK(with.payload_sent == without.payload_sent);
        CHECK(with.calls == without.calls);
        std::int64_t calls = 0;
        std::int64_t elements = 0;
        for (const int size : {stage > 0 ? mesh.dp_shard : 1, mesh.tp, mesh.pp}) {
          if (size == 1) continue;
          calls += mesh.size();
          elements += mesh.size() / size * 2 * (size - 1);
        }
        CHECK(with.scalar_calls - without.scalar_calls == 3 * calls);
        CHECK(with.scalar_sent - without.scalar_sent == 3 * 4 * elements);
      }
    }
  }
}

}  // namespace shardsim::test
