#include <cmath>
#include <set>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// Statements S1 to S8: what every sharded optimizer promises.
namespace shardsim::test {

namespace {

// One of each strategy, on few ranks, with sizes that ranks do not divide.
std::vector<Setup> all_strategies() {
  std::vector<Setup> setups = {setup_of("ddp", 3),
                               setup_of("zero1", 3),
                               setup_of("zero2", 3),
                               setup_of("zero3", 3, "tied llama"),
                               setup_of("fsdp", 3, "gpt2"),
                               setup_of("tensor_parallel", 2, "gpt2"),
                               setup_of("pipeline_parallel", 3, "tied llama"),
                               setup_of("hybrid_sharded", 8, "gpt2")};
  setups.back().choice = hybrid_sharded(2, 2, 2);
  return setups;
}

std::vector<SerializedState> states_after(const Setup& setup, int steps) {
  std::vector<SerializedState> states(static_cast<std::size_t>(setup.ranks));
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    for (int step = 0; step < steps; ++step) optimizer.step();
    states[static_cast<std::size_t>(optimizer.rank())] = optimizer.serialize();
  });
  return states;
}

}  // namespace

TEST_CASE("S1: serialize then deserialize restores exactly, and the next steps are the same",
          "[S1]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name);
    const std::vector<SerializedState> before = states_after(setup, 2);
    const WholeState uninterrupted = train(setup, 5);
    WholeState continued;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      optimizer.step();  // So that there is something else to be overwritten.
      const SerializedState& own = before[static_cast<std::size_t>(optimizer.rank())];
      optimizer.deserialize(own);
      const SerializedState restored = optimizer.serialize();
      const bool same_bytes = bytes_of(restored) == bytes_of(own);
      CHECK(same_bytes);
      CHECK(restored.scalars == own.scalars);
      for (int step = 0; step < 3; ++step) optimizer.step();
      add_to(continued, optimizer.serialize());
    });
    const bool same = continued == uninterrupted;
    CHECK(same);
  }
}

TEST_CASE("S2: the state of one layout restores on other devices, at any other layout", "[S2]") {
  std::vector<Setup> layouts = {setup_of("ddp", 1, "gpt2"),
                                setup_of("zero2", 4, "gpt2"),
                                setup_of("fsdp", 3, "gpt2"),
                                setup_of("tensor_parallel", 4, "gpt2"),
                                setup_of("pipeline_parallel", 3, "gpt2"),
                                setup_of("hybrid_sharded", 8, "gpt2")};
  layouts.back().choice = hybrid_sharded(2, 2, 2, 1);
  for (const Setup& from : layouts) {
    const std::vector<SerializedState> states = states_after(from, 2);
    WholeState saved;
    for (const SerializedState& state : states) add_to(saved, state);
    for (const Setup& to : layouts) {
      INFO(from.choice.name << " to " << to.choice.name);
      WholeState restored;
      on_ranks(to, [&](ShardedOptimizer& optimizer) {
        optimizer.deserialize(states);
        CHECK(optimizer.model().steps() == 2);
        add_to(restored, optimizer.serialize());
      });
      const bool same = restored == saved;
      CHECK(same);
    }
  }
}

TEST_CASE("S3: optimize loops until the limit and returns parameters and metrics", "[S3]") {
  for (Setup setup : all_strategies()) {
    INFO(setup.choice.name);
    setup.options.maximum_iterations = 4;
    const WholeState reference = train(setup, 4);
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      const OptimizationResult result = optimizer.optimize();
      CHECK(result.reason == StopReason::iteration_limit);
      CHECK(result.iterations() == 4);
      for (const double loss : result.losses) CHECK((std::isfinite(loss) && loss > 0.0));
      const Model& model = optimizer.model().wrapped_model();
      REQUIRE(result.parameters.size() == model.parameters().size());
      std::size_t i = 0;
      for (const Tensor& parameter : result.parameters) {
        std::vector<double> values(static_cast<std::size_t>(parameter.numel()));
        load(parameter.flat(), values);
        const bool same = values == reference.at("parameter/" + model.parameters()[i++].name);
        CHECK(same);
      }
    });
  }
}

TEST_CASE("S3: optimize ends when it has converged, on every rank at once", "[S3]") {
  Setup setup = setup_of("fsdp", 3);
  setup.options.maximum_iterations = 50;
  setup.options.tolerance = 0.05;
  std::set<std::int64_t> iterations;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    const OptimizationResult result = optimizer.optimize();
    CHECK(result.reason == StopReason::converged);
    const std::vector<double>& losses = result.losses;
    REQUIRE(losses.size() >= 2);
    for (std::size_t i = 1; i < losses.size(); ++i) {
      const bool is_last = i + 1 == losses.size();
      CHECK((std::fabs(losses[i] - losses[i - 1]) <= 0.05) == is_last);
    }
    iterations.insert(result.iterations());
  });
  CHECK(iterations.size() == 1);
}

TEST_CASE("S4: after synchronize_optimizer_state all holders of a state agree with its owner",
          "[S4]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name);
    const std::vector<SerializedState> good = states_after(setup, 2);
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 2; ++step) optimizer.step();
      const SerializedState& own = good[static_cast<std::size_t>(optimizer.rank())];
      optimizer.synchronize_optimizer_state();
      const bool nothing_changed = bytes_of(optimizer.serialize()) == bytes_of(own);
      CHECK(nothing_changed);
    });
  }
}

TEST_CASE("S5: ranks are unique and below the world size, which all know", "[S5]") {
  for (const Setup& setup : all_strategies()) {
    std::set<int> ranks;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      ranks.insert(optimizer.rank());
      CHECK(optimizer.world_size() == setup.ranks);
      CHECK((optimizer.rank() >= 0 && optimizer.rank() < setup.ranks));
    });
    CHECK(ranks.size() == static_cast<std::size_t>(setup.ranks));
  }
}

TEST_CASE("S5: rank 0 coordinates: it alone writes the manifest of a checkpoint", "[S5]") {
  const Setup setup = setup_of("zero2", 3);
  std::vector<MemoryFileSystem> disks(3);
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    // Each rank on a disk of its own: rank 0 commits what the others told it.
    optimizer.save_model(disks[static_cast<std::size_t>(optimizer.rank())], "/out");
  });
  for (std::size_t rank = 0; rank < disks.size(); ++rank) {
    bool manifest = false;
    for (const std::string& path : disks[rank].all_files()) {
      manifest = manifest || path.find("manifest.json") != std::string::npos;
    }
    CHECK(manifest == (rank == 0));
  }
}

TEST_CASE("S6: ranks are responsible for portions that are disjoint and cover the model", "[S6]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name);
    std::map<std::pair<int, std::int64_t>, int> times;
    std::int64_t elements = 0;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      const ShardedModel& model = optimizer.model();
      elements = num_parameters(model.wrapped_model());
      for (const ParameterShard& shard : model.local_parameter_shard()) {
        for (std::int64_t i = 0; i < shard.values.numel(); ++i) {
          ++times[{shard.parameter, shard.first + i}];
        }
      }
    });
    CHECK(static_cast<std::int64_t>(times.size()) == elements);
    bool once = true;
    for (const auto& [element, count] : times) once = once && count == 1;
    CHECK(once);
  }
}

TEST_CASE("S7: after every round all ranks that hold a parameter agree to the bit", "[S7]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name);
    for (int step = 1; step <= 3; ++step) {
      const std::vector<SerializedState> states = states_after(setup, step);
      WholeState whole;
      for (const SerializedState& state : states) add_to(whole, state);
      bool agree = true;
      for (SerializedState state : states) {
        std::set<std::string> names;
        for (SerializedState::Part& part : state.parts) {
          // Copies only, one tensor at a time, held against what the owners have.
          if (part.main || !names.insert(part.tensor.name).second) continue;
          part.main = true;
          WholeState held;
          add_to(held, {.parts = {part}, .scalars = {}});
          const std::vector<double>& owners = whole.at(part.tensor.name);
          const std::vector<double>& copies = held.at(part.tensor.name);
          for (std::size_t i = 0; i < copies.size(); ++i) {
            agree = agree && (std::isnan(copies[i]) || copies[i] == owners[i]);
          }
        }
      }
      CHECK(agree);
    }
  }
}

TEST_CASE("S8: a model larger than one device's memory trains: each rank holds less", "[S8]") {
  const auto peak_of = [](const Setup& setup) {
    FiberWorld world(world_of(setup));
    on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
    std::int64_t peak = 0;
    for (int rank = 0; rank < setup.ranks; ++rank) {
      peak = std::max(peak, world.engine().rank(rank).ledger().peak());
    }
    return peak;
  };
  const std::int64_t alone = peak_of(setup_of("ddp", 1, "gpt2"));
  for (const char* name : {"zero1", "zero2", "fsdp", "tensor_parallel", "pipeline_parallel"}) {
    INFO(name);
    const int ranks = name == std::string("pipeline_parallel") ? 3 : 4;
    CHECK(peak_of(setup_of(name, ranks, "gpt2")) < alone);
  }
}

}  // namespace shardsim::test
