#include "strategies/sharded_optimizer/other_data_parallelism.hpp"

#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// The specification's optimizers that change the algorithm, through its own interface. The verify
// scenarios hold their results against their references. Here each name must mean its algorithm.
namespace shardsim::test {

namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 4;

using Make = std::function<std::unique_ptr<ShardedOptimizer>(
    Runtime&, Communicator&, const ParallelOptions&, std::unique_ptr<Optimizer>)>;

struct Trained {
  std::vector<std::vector<double>> weights;  ///< Weights of each rank, one after the other.
  std::vector<double> losses;
  std::int64_t sent = 0;
};

Setup plain_sgd() {
  Setup setup = exact(setup_of("ddp", kRanks));
  setup.optimizer = "sgd";
  return setup;
}

Trained trained(const Setup& setup, const Make& make_one, int steps = kSteps) {
  Trained result;
  result.weights.resize(static_cast<std::size_t>(setup.ranks));
  FiberWorld world(world_of(setup));
  world.run([&](Runtime& runtime, Communicator& ranks) {
    const auto optimizer = make_one(runtime, ranks, problem_of(setup),
                                    make_optimizer(setup.optimizer, setup.optimizer_options));
    for (int step = 0; step < steps; ++step) {
      const double loss = optimizer->step();
      if (ranks.rank() == 0) result.losses.push_back(loss);
    }
    optimizer->drain();
    std::vector<double>& own = result.weights[static_cast<std::size_t>(ranks.rank())];
    optimizer->model().gradient_sync().visit(StateKind::parameter, [&](const StatePiece& piece) {
      for (const double value : values_of(piece.values)) own.push_back(value);
    });
    if (optimizer->model().plan().options().sync.local.acts()) {
      CHECK(code_of([&] { (void)optimizer->serialize(); }) == "E0797");
    }
  });
  result.sent = world.total_traffic().payload_sent;
  return result;
}

Make ddp() {
  return [](Runtime& runtime, Communicator& ranks, const ParallelOptions& problem,
            std::unique_ptr<Optimizer> wrapped) {
    return make_sharded_optimizer("ddp", runtime, ranks, problem, std::move(wrapped));
  };
}
Make local_sgd(const LocalTraining& local) {
  return [=](Runtime& runtime, Communicator& ranks, const ParallelOptions& problem,
             std::unique_ptr<Optimizer> wrapped) {
    return make_local_sgd_optimizer(runtime, ranks, problem, std::move(wrapped), local);
  };
}
Make async_sgd(int max_staleness) {
  return [=](Runtime& runtime, Communicator& ranks, const ParallelOptions& problem,
             std::unique_ptr<Optimizer> wrapped) {
    return make_async_sgd_optimizer(runtime, ranks, problem, std::move(wrapped), max_staleness);
  };
}
Make compressed(double ratio, bool quantize, bool topk) {
  return [=](Runtime& runtime, Communicator& ranks, const ParallelOptions& problem,
             std::unique_ptr<Optimizer> wrapped) {
    return make_gradient_compression_optimizer(runtime, ranks, problem, std::move(wrapped), ratio,
                                               quantize, topk);
  };
}

}  // namespace

TEST_CASE("LocalSGD: averages after each step are DDP, and after more replicas differ between") {
  const Setup setup = plain_sgd();
  const Trained reference = trained(setup, ddp(), 2);
  CHECK(trained(setup, local_sgd({.sync_period = 1}), 2).weights == reference.weights);
  const Trained apart = trained(setup, local_sgd({.sync_period = 3}), 4);
  CHECK(apart.weights[0] != apart.weights[1]);
  const Trained together = trained(setup, local_sgd({.sync_period = 2}), 4);
  CHECK(together.weights[0] == together.weights[1]);
}

TEST_CASE(
    "AsyncSGD: without staleness it is DDP, with it the first losses are of the same weights") {
  const Setup setup = plain_sgd();
  const Trained reference = trained(setup, ddp(), 2);
  CHECK(trained(setup, async_sgd(0), 2).weights == reference.weights);
  // One update in two steps: that of the first gradients, as DDP makes it in one step.
  CHECK(trained(setup, async_sgd(1), 2).weights == trained(setup, ddp(), 1).weights);
}

TEST_CASE("GradientCompression: all elements are DDP, few and 8 bits are fewer bytes") {
  const Setup setup = plain_sgd();
  const Trained reference = trained(setup, ddp(), 2);
  CHECK(trained(setup, compressed(1.0, false, true), 2).weights == reference.weights);
  CHECK(trained(setup, compressed(0.1, false, false), 2).weights == reference.weights);
  const Trained quantized = trained(setup, compressed(0.1, true, false), 2);
  CHECK(quantized.weights != reference.weights);
  CHECK(quantized.sent < reference.sent);
  CHECK(trained(setup, compressed(0.1, false, true), 2).sent < reference.sent);
  CHECK(code_of([&] { (void)trained(setup, compressed(0.1, true, true), 1); }) == "E0798");
}

}  // namespace shardsim::test
