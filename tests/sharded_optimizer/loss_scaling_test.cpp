#include <cmath>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// The state of loss scaling goes through checkpoints like any other, and decisions of an optimizer
// through the record of a run.
namespace shardsim::test {

namespace {

// Gradients of a mean are about 0.1 and overflow fp16 beyond 65504: the first steps are skipped.
Setup scaled(Setup setup) {
  setup.sync.gradient_dtype = DType::fp16;
  setup.training.loss_scaling = {.mode = LossScaling::Mode::dynamic,
                                 .initial_scale = 0x1p24,
                                 .growth_interval = 2,
                                 .hysteresis = 2};
  setup.training.num_microbatches = 4 / mesh_of(setup.choice, setup.ranks).data_size();
  return setup;
}

std::vector<Setup> scaled_layouts() {
  std::vector<Setup> all = {setup_of("ddp", 1, "gpt2"),
                            setup_of("zero1", 4, "gpt2"),
                            setup_of("fsdp", 2, "gpt2"),
                            setup_of("tensor_parallel", 4, "gpt2"),
                            setup_of("pipeline_parallel", 3, "gpt2"),
                            setup_of("hybrid_sharded", 8, "gpt2")};
  all.back().choice = hybrid_sharded(2, 2, 2, 2);
  for (Setup& setup : all) setup = scaled(setup);
  return all;
}

using Progress = std::tuple<std::int64_t, double, std::int64_t, std::int64_t>;

Progress progress_of(const ShardedOptimizer& optimizer) {
  const TrainingProgress& progress = optimizer.model().progress();
  return {progress.updates, progress.loss_scale.scale, progress.loss_scale.good_steps,
          progress.loss_scale.overflows_left};
}

}  // namespace

TEST_CASE("P49: loss scale and its counters are saved at any layout and loaded at any other",
          "[P49]") {
  for (const Setup& from : scaled_layouts()) {
    for (const int steps : {0, 1, 4, 13}) {
      MemoryFileSystem disk;
      Progress saved;
      on_ranks(from, [&](ShardedOptimizer& optimizer) {
        for (int step = 0; step < steps; ++step) optimizer.step();
        optimizer.save_model(disk, "/out");  // Refused if ranks disagreed on one of them.
        saved = progress_of(optimizer);
      });
      // The rule's first moves: two overflows until the first halving, then one each.
      if (steps == 0) CHECK(saved == Progress{0, 0x1p24, 0, 2});
      if (steps == 1) CHECK(saved == Progress{0, 0x1p24, 0, 1});
      if (steps == 4) CHECK(saved == Progress{0, 0x1p21, 0, 0});
      if (steps == 13) CHECK(std::get<0>(saved) > 0);
      for (const Setup& to : scaled_layouts()) {
        INFO(from.choice.name << " to " << to.choice.name << " after " << steps);
        on_ranks(to, [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/out", .step = steps});
          CHECK(progress_of(optimizer) == saved);
          CHECK(optimizer.model().steps() == steps);
        });
      }
    }
  }
}

// Through skipped steps, growth, and Adam's corrections, which count updates.
TEST_CASE("P49: training with loss scaling goes on as if uninterrupted, bit by bit", "[P49]") {
  for (const Setup& setup : scaled_layouts()) {
    INFO(setup.choice.name);
    const auto trained = [&](int first, int then) {
      std::vector<std::vector<std::byte>> bytes(static_cast<std::size_t>(setup.ranks));
      Progress progress;
      MemoryFileSystem disk;
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        for (int step = 0; step < first; ++step) optimizer.step();
        optimizer.save_model(disk, "/out");
      });
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        optimizer.load_model(disk, {.directory = "/out", .step = first});
        for (int step = 0; step < then; ++step) optimizer.step();
        bytes[static_cast<std::size_t>(optimizer.rank())] = bytes_of(optimizer.serialize());
        progress = progress_of(optimizer);
      });
      return std::make_pair(bytes, progress);
    };
    const auto uninterrupted = trained(0, 14);
    for (const int first : {3, 10, 13}) {
      const bool same = trained(first, 14 - first) == uninterrupted;
      CHECK(same);
    }
  }
}

TEST_CASE("P49: a state of another kind of loss scaling, or an impossible one, is refused",
          "[P49]") {
  const Setup dynamic = scaled(setup_of("zero1", 2, "gpt2"));
  Setup none = dynamic;
  none.training.loss_scaling = {};
  Setup constant = dynamic;
  constant.training.loss_scaling.mode = LossScaling::Mode::constant;
  Setup other = constant;
  other.training.loss_scaling.initial_scale = 1024.0;
  const auto refusal = [](const Setup& from, const Setup& to, const Scalars& changes = {}) {
    std::vector<SerializedState> states(2);
    on_ranks(from, [&](ShardedOptimizer& optimizer) {
      SerializedState& state = states[static_cast<std::size_t>(optimizer.rank())];
      state = optimizer.serialize();
      for (const auto& [name, value] : changes) state.scalars[name] = value;
    });
    return code_of(
        [&] { on_ranks(to, [&](ShardedOptimizer& optimizer) { optimizer.deserialize(states); }); });
  };
  CHECK(refusal(dynamic, dynamic) == "none");
  CHECK(refusal(none, dynamic) == "E0810");
  CHECK(refusal(dynamic, none) == "E0810");
  CHECK(refusal(constant, dynamic) == "E0810");
  CHECK(refusal(constant, constant) == "none");
  CHECK(refusal(constant, other) == "E0810");
  CHECK(refusal(dynamic, dynamic, {{"loss_scale", 512.0}}) == "none");
  for (const double scale : {0.0, -1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    CHECK(refusal(dynamic, dynamic, {{"loss_scale", scale}}) == "E0810");
  }
  for (const char* counter : {"updates", "loss_scale.good_steps", "loss_scale.overflows_left"}) {
    CHECK(refusal(dynamic, dynamic, {{counter, std::int64_t{-1}}}) == "E0810");
    CHECK(refusal(dynamic, dynamic, {{counter, 1.0}}) == "E0814");
  }
  // More updates than steps, more good steps than updates.
  using Number = std::int64_t;
  CHECK(refusal(dynamic, dynamic, {{"step", Number{2}}, {"updates", Number{2}}}) == "none");
  CHECK(refusal(dynamic, dynamic, {{"step", Number{2}}, {"updates", Number{3}}}) == "E0810");
  const auto good_steps = [](Number count) {
    return Scalars{{"step", Number{9}}, {"updates", Number{5}}, {"loss_scale.good_steps", count}};
  };
  CHECK(refusal(dynamic, dynamic, good_steps(5)) == "none");
  CHECK(refusal(dynamic, dynamic, good_steps(6)) == "E0810");
}

TEST_CASE("a plan that replays a record converges and skips where the run with data did",
          "[sharded_optimizer]") {
  for (const Setup& layout : scaled_layouts()) {
    Setup setup = layout;
    setup.options.maximum_iterations = 14;
    setup.options.tolerance = 1e-3;  // Skipped steps still see other batches.
    setup.options.early_stopping.patience = 12;
    DecisionLog log(setup.ranks);
    const auto optimized = [&](bool has_data, DecisionReplay* replay) {
      setup.world.has_data = has_data;
      setup.world.record = has_data ? &log : nullptr;
      setup.world.replay = replay;
      FiberWorld world(world_of(setup));
      std::int64_t iterations = 0;
      on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
        iterations = optimizer.optimize().iterations();
      });
      return std::make_pair(world.engine().trace_hash(), iterations);
    };
    INFO(setup.choice.name);
    const auto real = optimized(true, nullptr);
    DecisionReplay replay(log);
    CHECK(optimized(false, &replay) == real);
    replay.finish();
    const auto plan = optimized(false, nullptr);
    CHECK(plan.second == 14);
    CHECK(plan.first != real.first);
  }
}

TEST_CASE("steps that are skipped count neither for convergence nor for early stopping",
          "[sharded_optimizer]") {
  for (Setup setup : scaled_layouts()) {
    // Some twenty steps are skipped before the first update.
    setup.training.loss_scaling.initial_scale = 0x1p40;
    setup.options.maximum_iterations = 60;
    setup.options.early_stopping.patience = 1;
    FiberWorld world(world_of(setup));
    INFO(setup.choice.name);
    on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
      const OptimizationResult result = optimizer.optimize();
      CHECK(result.iterations() > 10);
      CHECK(optimizer.model().progress().updates >= 2);
    });
  }
}

}  // namespace shardsim::test
