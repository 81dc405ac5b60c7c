#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// Statements T1 to T6: the document of tensor parallelism. Its wording of who synchronizes when is
// the reverse of the standard rule; what is tested is what the rule is for: every result is that of
// the whole layer.
namespace shardsim::test {

namespace {

// Four heads, vocabulary and feed-forward sizes that 2 and 4 divide or not.
Setup tensor_parallel(int ranks, const std::string& model) {
  Setup setup = setup_of("tensor_parallel", ranks, model);
  setup.change_model = [](ModelOptions& options) { options.num_query_groups = 4; };
  // A key's bias has a gradient of rounding noise only, which Adam would blow up.
  setup.optimizer_options.epsilon = 1e-4;
  return setup;
}

struct Calls {
  int all_reduce = 0;
  int other = 0;
};

// Payload calls of rank 0 on the tensor-parallel stream in a step.
Calls calls_of(Setup setup) {
  setup.world.traced_ranks = {0};
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  Calls calls;
  for (const TraceTrack& track : world.engine().rank(0).trace()->tracks) {
    if (track.name != "tp") continue;
    for (const TraceSlice& slice : track.slices) {
      ++(std::string(slice.name) == "all_reduce" ? calls.all_reduce : calls.other);
    }
  }
  return calls;
}

}  // namespace

TEST_CASE("T1: different parts of each layer live on different ranks, 1/t of each weight", "[T1]") {
  for (const int t : {2, 4}) {
    const Setup setup = tensor_parallel(t, "gpt2");
    FiberWorld world(world_of(setup));
    int cut = 0;
    std::int64_t expected = 0;
    on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
      const ShardedModel& model = optimizer.model();
      const auto local = model.plan().part(model.place()).model->parameters();
      const auto whole = model.wrapped_model().parameters();
      expected = 0;
      for (std::size_t i = 0; i < local.size(); ++i) {
        expected += local[i].shape.numel() * 8;
        // Matrices are cut, but for the table of positions.
        const bool is_matrix = whole[i].shape.rank() == 2;
        const bool is_positions = whole[i].name.find("position") != std::string::npos;
        if (!is_matrix || is_positions) continue;
        ++cut;
        REQUIRE(local[i].is_split());
        const std::int64_t rows = whole[i].shape.numel() / whole[i].shape[local[i].split.axis];
        CHECK(local[i].shape.numel() * t >= whole[i].shape.numel());
        CHECK(local[i].shape.numel() * t < whole[i].shape.numel() + t * rows);
      }
    });
    CHECK(cut == t * (1 + 2 * 4));
    CHECK(world.engine().rank(t - 1).ledger().category_peaks()[0] == expected);
  }
}

TEST_CASE("T2: column- and row-parallel layers give the dense layer's outputs and gradients",
          "[T2]") {
  for (const char* model : {"mlp", "gpt2", "untied gpt2", "llama", "tied llama"}) {
    for (const int t : {2, 4}) {
      INFO(model << " in " << t);
      const Setup setup = tensor_parallel(t, model);
      const std::vector<double> losses = losses_alone(setup, 3);
      for (std::size_t step = 0; step < losses.size(); ++step) {
        WholeState gradients;
        on_ranks(setup, [&](ShardedOptimizer& optimizer) {
          for (std::size_t before = 0; before < step; ++before) optimizer.step();
          optimizer.model().compute_gradients();
          add_gradients_to(gradients, optimizer);
        });
        CHECK(worst_error(gradients, gradients_alone(setup, static_cast<int>(step))) <=
              kOracleBound);
      }
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        // The loss is what all outputs go into.
        for (const double loss : losses) {
          CHECK(std::fabs(optimizer.step() - loss) <= kOracleBound * std::fabs(loss));
        }
      });
      CHECK(worst_error(train(setup, 3), train_alone(setup, 3)) <= kOracleBound);
    }
  }
}

TEST_CASE("T3: a shard's gradient is its slice of the dense gradient", "[T3]") {
  for (const char* model : {"mlp", "gpt2", "llama"}) {
    const Setup setup = tensor_parallel(4, model);
    WholeState gradients;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      optimizer.step();
      optimizer.model().compute_gradients();
      add_gradients_to(gradients, optimizer);
    });
    INFO(model);
    CHECK(worst_error(gradients, gradients_alone(setup, 1)) <= kOracleBound);
  }
}

TEST_CASE("T4: updates are coordinated in the tensor-parallel group only", "[T4]") {
  const Setup setup = tensor_parallel(4, "gpt2");
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  CHECK(world.traffic().at("tp").payload_sent > 0);
  CHECK(world.traffic().at("tp").payload_sent == world.total_traffic().payload_sent);
  // With replicas beside it: no call of a group reaches another group's ranks.
  Setup two = tensor_parallel(4, "gpt2");
  two.choice = hybrid_sharded(1, 2, 2);
  FiberWorld pairs(world_of(two));
  on_ranks(pairs, two, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  const MeshShape mesh = mesh_of(two.choice, 4);
  bool seen = false;
  pairs.for_each_link([&](const LinkTraffic& link) {
    if (link.group != "tp") return;
    seen = true;
    CHECK(mesh.place_of(link.from_rank).dp_shard == mesh.place_of(link.to_rank).dp_shard);
  });
  CHECK(seen);
}

TEST_CASE("T5: transformer blocks and very wide layers work", "[T5]") {
  for (const char* model : {"mlp", "gpt2", "llama"}) {
    Setup setup = tensor_parallel(4, model);
    setup.change_model = [](ModelOptions& options) {
      options.num_query_groups = 4;
      options.ffn_hidden_size = 1000;
    };
    setup.training.num_microbatches = 1;
    INFO(model);
    CHECK(worst_error(train(setup, 1), train_alone(setup, 1)) <= kOracleBound);
  }
}

TEST_CASE("T6: communication is per layer: four all-reduces a layer and microbatch", "[T6]") {
  const auto calls = [](std::int64_t layers, std::int64_t microbatches) {
    Setup setup = tensor_parallel(2, "llama");
    setup.training.num_microbatches = microbatches;
    setup.change_model = [layers](ModelOptions& options) { options.num_layers = layers; };
    return calls_of(setup);
  };
  for (const std::int64_t microbatches : {1, 3}) {
    const Calls two = calls(2, microbatches);
    const Calls five = calls(5, microbatches);
    CHECK(five.all_reduce - two.all_reduce == 4 * 3 * microbatches);
    CHECK(five.other == two.other);
  }
}

}  // namespace shardsim::test
