#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"
#include "tests/sharded_optimizer/own_optimizers.hpp"

// Statements Z1 to Z5: the document of ZeRO-2.
namespace shardsim::test {

namespace {

constexpr std::size_t kGrads = 1;
constexpr std::size_t kOptimizer = 2;

// Plain SGD that counts the elements it is given to update.
class CountingSgd final : public Optimizer {
 public:
  explicit CountingSgd(std::int64_t& elements) : elements_(elements) {}

  [[nodiscard]] std::string_view name() const override { return sgd_->name(); }
  [[nodiscard]] const OptimizerOptions& options() const override { return sgd_->options(); }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    return sgd_->state_names();
  }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale,
            std::int64_t step) const override {
    elements_ += parameter.numel();
    sgd_->step(runtime, parameter, gradient, state, gradient_scale, step);
  }

 private:
  std::unique_ptr<Optimizer> sgd_ = make_optimizer("sgd", {});
  std::int64_t& elements_;
};

MemoryUse peaks(const Setup& setup, int rank) {
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  return world.engine().rank(rank).ledger().category_peaks();
}

std::int64_t payload_sent(const Setup& setup) {
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  return world.total_traffic().payload_sent;
}

}  // namespace

TEST_CASE("Z1: exactly four phases: gradients, reduce-scatter, own update, all-gather", "[Z1]") {
  Setup setup = setup_of("zero2", 4);
  setup.training.num_microbatches = 1;
  setup.configuration.minimum_parameter_group_size = 1 << 20;  // One bucket: one of each.
  setup.world.traced_ranks = {1};
  FiberWorld world(world_of(setup));
  std::int64_t shard = 0;
  std::vector<std::int64_t> updated(4);
  world.run([&](Runtime& runtime, Communicator& communicator) {
    std::int64_t& elements = updated[static_cast<std::size_t>(communicator.rank())];
    const auto optimizer =
        make_sharded_optimizer("zero2", runtime, communicator, problem_of(setup),
                               std::make_unique<CountingSgd>(elements), setup.configuration);
    optimizer->step();
    shard = optimizer->model().plan().layout(0).padded() / 4;
  });
  CHECK(shard > 0);
  CHECK(updated == std::vector<std::int64_t>(4, shard));

  std::vector<TraceSlice> phases;
  Time last_gradient;
  std::int64_t losses = 0;
  for (const TraceTrack& track : world.engine().rank(1).trace()->tracks) {
    for (const TraceSlice& slice : track.slices) {
      const std::string name = slice.name;
      if (track.name == "compute") {
        const bool is_gradient = name.find("backward") != std::string::npos;
        if (is_gradient) last_gradient = std::max(last_gradient, slice.end);
        if (name == "optimizer_step") phases.push_back(slice);
        continue;
      }
      // Two kinds of communication do not count: groups before the step, and a number for the
      // report.
      const bool is_loss = name == "all_reduce" && slice.label == "loss" && slice.bytes == 2 * 8;
      losses += is_loss ? 1 : 0;
      if (!is_loss && name != "split") phases.push_back(slice);
    }
  }
  std::sort(phases.begin(), phases.end(),
            [](const TraceSlice& a, const TraceSlice& b) { return a.begin < b.begin; });
  CHECK(losses == 1);
  REQUIRE(phases.size() == 3);
  CHECK(last_gradient > Time{});
  CHECK(phases[0].name == std::string("reduce_scatter"));
  CHECK(last_gradient <= phases[0].begin);
  CHECK(phases[1].name == std::string("optimizer_step"));
  CHECK(phases[0].end <= phases[1].begin);
  CHECK(phases[2].name == std::string("all_gather"));
  CHECK(phases[1].end <= phases[2].begin);
}

TEST_CASE("Z2: any gradient-based optimizer is accepted, others are an argument error", "[Z2]") {
  for (const std::string_view name : optimizer_names()) {
    Setup setup = setup_of("zero2", 2);
    setup.optimizer = name;
    CHECK_NOTHROW(train(setup, 1));
  }
  const Setup setup = setup_of("zero2", 2);
  for (const UpdateRule rule : {UpdateRule::gradient_free, UpdateRule::norm_based}) {
    for (const NamedChoice& choice : named_choices()) {
      Setup refused = setup_of(choice.name, 2);
      FiberWorld world(world_of(refused));
      world.run([&](Runtime& runtime, Communicator& communicator) {
        CHECK(code_of([&] {
                (void)make_sharded_optimizer(choice.name, runtime, communicator, problem_of(setup),
                                             std::make_unique<SignSgd>(rule));
              }) == "E0782");
      });
    }
  }
}

TEST_CASE("Z3: gradients and state take 1/N of DDP's memory, linearly in N", "[Z3]") {
  // No reduction in flight, so that one bucket is in memory beside the shard.
  const auto zero2 = [](int ranks) {
    Setup setup = setup_of("zero2", ranks, "llama");
    setup.sync.reductions_in_flight = 0;
    return setup;
  };
  const MemoryUse ddp = peaks(setup_of("ddp", 4, "llama"), 0);
  for (const int ranks : {2, 4, 8, 16}) {
    std::int64_t largest = 0;
    std::int64_t padded = 0;
    const Setup setup = zero2(ranks);
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      const FlatLayout& layout = optimizer.model().plan().layout(0);
      padded = layout.padded() * 8;
      for (const FlatChunk& chunk : layout.chunks()) largest = std::max(largest, chunk.padded * 8);
    });
    const MemoryUse use = peaks(setup, ranks - 1);
    CHECK(use.at(kOptimizer) == 2 * padded / ranks);
    CHECK(padded - ddp.at(kGrads) < 8 * 64 * ranks);  // Padding: less than N elements a bucket.
    CHECK(use.at(kGrads) >= padded / ranks);
    CHECK(use.at(kGrads) <= padded / ranks + largest);
  }
}

TEST_CASE("Z4: all ranks reconstruct identical parameters", "[Z4]") {
  const Setup setup = setup_of("zero2", 5, "llama");
  std::vector<std::vector<double>> by_rank(5);
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    for (int step = 0; step < 3; ++step) optimizer.step();
    std::vector<double>& values = by_rank[static_cast<std::size_t>(optimizer.rank())];
    // The values that the rank computes with, not those that it gathers for us.
    optimizer.model().gradient_sync().visit(StateKind::parameter, [&](const StatePiece& piece) {
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) values.push_back(piece.values.get(i));
    });
  });
  for (const std::vector<double>& values : by_rank) {
    const bool same = values == by_rank[0];
    CHECK(same);
    CHECK(!values.empty());
  }
}

TEST_CASE("Z5: traffic is a reduce-scatter and an all-gather: that of DDP's all-reduce", "[Z5]") {
  for (const int ranks : {2, 3, 4, 7}) {
    Setup setup = setup_of("zero2", ranks);
    setup.training.num_microbatches = 1;
    std::int64_t elements = 0;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      elements = num_parameters(optimizer.model().wrapped_model());
    });
    CHECK(payload_sent(setup) == 2 * (ranks - 1) * elements * 8);
    Setup ddp = setup_of("ddp", ranks);
    ddp.training.num_microbatches = 1;
    CHECK(payload_sent(setup) == payload_sent(ddp));
  }
}

}  // namespace shardsim::test
