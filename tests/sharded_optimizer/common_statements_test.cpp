#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"
#include "tests/sharded_optimizer/own_optimizers.hpp"

// Statements S1 to S8: what every sharded optimizer promises.
namespace shardsim::test {

namespace {

// Where more than one rank holds some state: also shards that have replicas.
std::vector<Setup> strategies_with_copies() {
  std::vector<Setup> setups = {setup_of("ddp", 3),
                               setup_of("zero1", 4),
                               setup_of("zero2", 6),
                               setup_of("fsdp", 4, "tied llama"),
                               setup_of("tensor_parallel", 2, "gpt2"),
                               setup_of("pipeline_parallel", 3, "tied llama"),
                               setup_of("hybrid_sharded", 8, "gpt2")};
  for (std::size_t i = 1; i <= 3; ++i) setups[i].choice.dp_replicate = 2;
  setups.back().choice = hybrid_sharded(2, 2, 2);
  return in_both_precisions(std::move(setups));
}

bool is_optimizer_state(const std::string& name) {
  return name.rfind("parameter/", 0) != 0;  // Masters are state like any other.
}

// How many elements there are, how often they are held, and how often with the value that their
// owner, the lowest rank that holds them, has in `reference` (NaN is equal to nothing).
struct Copies {
  std::size_t elements = 0;
  std::size_t held = 0;
  std::size_t equal = 0;

  [[nodiscard]] bool are_there() const { return held > elements; }
  [[nodiscard]] bool agree() const { return equal == held; }
};

Copies compare_copies(const std::vector<SerializedState>& states,
                      const std::vector<SerializedState>& reference,
                      const std::function<bool(const std::string&)>& is_meant) {
  using Visit = std::function<void(const std::string&, std::size_t, double)>;
  const auto visit = [&](const std::vector<SerializedState>& ranks, const Visit& each) {
    for (const SerializedState& state : ranks) {
      for (const SerializedState::Part& part : state.parts) {
        if (!is_meant(part.tensor.name)) continue;
        for_each_element(part, [&](std::size_t element, double value) {
          each(part.tensor.name, element, value);
        });
      }
    }
  };
  std::map<std::pair<std::string, std::size_t>, double> owned;
  visit(reference, [&](const std::string& name, std::size_t element, double value) {
    owned.try_emplace({name, element}, value);
  });
  Copies copies{.elements = owned.size()};
  visit(states, [&](const std::string& name, std::size_t element, double value) {
    ++copies.held;
    copies.equal += value == owned.at({name, element}) ? 1 : 0;
  });
  return copies;
}

void overwrite_optimizer_state(const ShardedOptimizer& optimizer) {
  const auto overwrite = [](const StatePiece& piece) {
    for (std::int64_t i = 0; i < piece.values.numel(); ++i) piece.values.set(i, 1234.0);
  };
  optimizer.model().gradient_sync().visit(StateKind::optimizer_state, overwrite);
}

}  // namespace

TEST_CASE("S1: serialize then deserialize restores exactly, and the next steps are the same",
          "[S1]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name << ", masters " << has_masters(setup));
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
  for (Setup& setup : layouts) {
    setup.training.num_microbatches = 12 / mesh_of(setup.choice, setup.ranks).data_size();
  }
  layouts = in_both_precisions(layouts);
  for (const Setup& from : layouts) {
    const std::vector<SerializedState> states = states_after(from, 2);
    WholeState saved;
    for (const SerializedState& state : states) add_to(saved, state);
    const bool masters_saved = std::any_of(
        saved.begin(), saved.end(), [](const auto& tensor) { return is_master(tensor.first); });
    CHECK(masters_saved == has_masters(from));
    for (const Setup& to : layouts) {
      if (to.sync.weight_dtype != from.sync.weight_dtype) continue;  // Refused: see P49.
      INFO(from.choice.name << " to " << to.choice.name << ", masters " << has_masters(from));
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
    INFO(setup.choice.name << ", masters " << has_masters(setup));
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
  for (Setup setup : all_strategies()) {
    INFO(setup.choice.name << ", masters " << has_masters(setup));
    const SmallestChange smallest = smallest_change(setup, 6);
    setup.options.maximum_iterations = 50;
    setup.options.tolerance = smallest.change;
    std::size_t ranks = 0;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      const OptimizationResult result = optimizer.optimize();
      CHECK(result.reason == StopReason::converged);
      CHECK(result.iterations() == smallest.iteration);
      ++ranks;
    });
    CHECK(ranks == static_cast<std::size_t>(setup.ranks));
  }
}

TEST_CASE("S4: after synchronize_optimizer_state all holders of a state agree with its owner",
          "[S4]") {
  for (const Setup& setup : strategies_with_copies()) {
    INFO(setup.choice.name << " of " << setup.ranks << ", dp_replicate "
                           << setup.choice.dp_replicate << ", masters " << has_masters(setup));
    const std::vector<SerializedState> good = states_after(setup, 2);
    REQUIRE(compare_copies(good, good, is_optimizer_state).are_there());
    REQUIRE(compare_copies(good, good, is_optimizer_state).agree());
    REQUIRE(compare_copies(good, good, is_master).are_there() == has_masters(setup));
    // Any one of the ranks goes astray with all state that it holds. (The middle one of three
    // stages shares nothing with anybody.)
    int times_diverged = 0;
    for (int astray = 0; astray < setup.ranks; ++astray) {
      std::vector<SerializedState> before(good.size());
      std::vector<SerializedState> after(good.size());
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        const auto rank = static_cast<std::size_t>(optimizer.rank());
        for (int step = 0; step < 2; ++step) optimizer.step();
        if (optimizer.rank() == astray) overwrite_optimizer_state(optimizer);
        before[rank] = optimizer.serialize();
        optimizer.synchronize_optimizer_state();
        after[rank] = optimizer.serialize();
      });
      INFO("rank " << astray);
      times_diverged += compare_copies(before, before, is_optimizer_state).agree() ? 0 : 1;
      // Right or wrong, the owner's values are those of all.
      CHECK(compare_copies(after, before, is_optimizer_state).agree());
      CHECK(compare_copies(after, after, [](const std::string&) { return true; }).agree());
    }
    CHECK(times_diverged == (setup.choice.pp == 3 ? 2 : setup.ranks));
  }
}

TEST_CASE("S4: synchronize_optimizer_state changes nothing where nothing has diverged", "[S4]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name << ", masters " << has_masters(setup));
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 2; ++step) optimizer.step();
      const std::vector<std::byte> before = bytes_of(optimizer.serialize());
      optimizer.synchronize_optimizer_state();
      const bool nothing_changed = bytes_of(optimizer.serialize()) == before;
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
    INFO(setup.choice.name << ", masters " << has_masters(setup));
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
  for (const Setup& setup : strategies_with_copies()) {
    INFO(setup.choice.name << " of " << setup.ranks << ", dp_replicate "
                           << setup.choice.dp_replicate << ", masters " << has_masters(setup));
    for (int step = 1; step <= 3; ++step) {
      const std::vector<SerializedState> states = states_after(setup, step);
      const Copies copies = compare_copies(states, states, [](const std::string&) { return true; });
      CHECK(copies.are_there());
      CHECK(copies.agree());
    }
  }
}

TEST_CASE("S7: ranks that have lost their numbers do not agree", "[S7]") {
  for (const Setup& setup : strategies_with_copies()) {
    INFO(setup.choice.name << ", masters " << has_masters(setup));
    std::vector<SerializedState> states(static_cast<std::size_t>(setup.ranks));
    FiberWorld world(world_of(setup));
    world.run([&](Runtime& runtime, Communicator& communicator) {
      ShardedOptimizer optimizer(runtime, communicator, problem_of(setup),
                                 std::make_unique<Lossy>(), setup.choice, setup.configuration);
      optimizer.step();
      states[static_cast<std::size_t>(optimizer.rank())] = optimizer.serialize();
    });
    const Copies copies = compare_copies(
        states, states, [](const std::string& name) { return name.rfind("parameter/", 0) == 0; });
    CHECK(copies.held > 0);
    CHECK(copies.equal == 0);
  }
}

TEST_CASE("S8: a model larger than one device's memory trains: each rank holds less", "[S8]") {
  // In fp64 a parameter takes 32 bytes: weight, gradient and Adam's two moments. The device has 24
  // for each; activations of two tokens are less than 2.
  constexpr std::int64_t kBytesPerParameter = 24;
  const auto on_small_devices = [](Setup setup) {
    setup.change_model = [](ModelOptions& options) {
      options.hidden_size = 32;
      options.ffn_hidden_size = 128;
      options.seq_len = 2;
    };
    setup.optimizer_options.epsilon = 1e-4;  // A key's bias has no gradient but rounding.
    FiberOptions options = world_of(setup);
    options.cluster.device.memory_bytes =
        kBytesPerParameter * num_parameters(*make_model(problem_of(setup).model));
    FiberWorld world(options);
    WholeState trained;
    on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 2; ++step) optimizer.step();
      add_to(trained, optimizer.serialize());
    });
    CHECK(worst_error(trained, train_alone(setup, 2)) <= 1e-9);  // The oracle's bound, in fp64.
    return code_of([&] { world.require_device_memory(); });
  };
  CHECK(on_small_devices(setup_of("ddp", 1, "gpt2")) == "E0309");
  CHECK(on_small_devices(setup_of("ddp", 4, "gpt2")) == "E0309");
  for (const char* name : {"zero1", "zero2", "fsdp", "tensor_parallel", "pipeline_parallel"}) {
    INFO(name);
    const int ranks = name == std::string("pipeline_parallel") ? 3 : 4;
    CHECK(on_small_devices(setup_of(name, ranks, "gpt2")) == "none");
  }
}

}  // namespace shardsim::test
