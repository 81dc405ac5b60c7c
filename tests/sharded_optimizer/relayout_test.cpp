#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// P49, P51 and P52: state across layouts, and copies of it.
namespace shardsim::test {

namespace {

// Layouts of up to 8 ranks with the same global batch of 8 samples. The first two steps are exact:
// weights get 6 binary places in a step, and gradients are products of up to 5 of them and data.
std::vector<Setup> exact_layouts() {
  std::vector<Setup> setups;
  const auto add = [&](const char* name, const ParallelChoice& choice, int ranks) {
    Setup setup = exact(setup_of("ddp", 1));
    setup.optimizer = "momentum";
    setup.optimizer_options = {.learning_rate = 0.25, .momentum = 0.5};
    setup.choice = choice;
    setup.choice.name = name;
    setup.ranks = ranks;
    setup.training.micro_batch_size = 1;
    setup.training.num_microbatches = 8 / mesh_of(choice, ranks).data_size();
    setups.push_back(setup);
  };
  add("one device", choice_of("ddp", 1), 1);
  add("ddp", choice_of("ddp", 4), 4);
  add("zero1", choice_of("zero1", 8), 8);
  add("zero2", choice_of("zero2", 2), 2);
  add("fsdp", choice_of("fsdp", 4), 4);
  ParallelChoice hsdp = choice_of("fsdp", 8);
  hsdp.dp_replicate = 2;
  add("hsdp", hsdp, 8);
  add("tensor parallel", choice_of("tensor_parallel", 4), 4);
  add("pipeline", choice_of("pipeline_parallel", 2), 2);
  add("hybrid", hybrid_sharded(2, 1, 4, 1), 8);
  return setups;
}

// Whether masters hold what narrow weights cannot, so that no weight can stand in for its master.
bool differ_from_weights(const WholeState& whole) {
  bool differ = false;
  for (const auto& [name, values] : whole) {
    if (!is_master(name)) continue;
    differ =
        differ || values != whole.at("parameter/" + name.substr(std::string("master/").size()));
  }
  return differ;
}

}  // namespace

TEST_CASE("P49: saved at any layout, loaded at any other, training goes on as if uninterrupted",
          "[P49]") {
  for (const bool masters : {false, true}) {
    std::vector<Setup> all = exact_layouts();
    if (masters) std::transform(all.begin(), all.end(), all.begin(), with_masters);
    const WholeState uninterrupted = train(all.front(), 2);
    CHECK(differ_from_weights(train(all.front(), 1)) == masters);
    if (!masters) CHECK(worst_error(uninterrupted, train_alone(all.front(), 2)) == 0.0);
    for (const Setup& from : all) {
      MemoryFileSystem disk;
      on_ranks(from, [&](ShardedOptimizer& optimizer) {
        optimizer.step();
        optimizer.save_model(disk, "/out");
      });
      for (const Setup& to : all) {
        // In bf16 the parts of a sum that tensor-parallel ranks have are rounded before it.
        const bool same_rounding = (from.choice.tp > 1) == (to.choice.tp > 1);
        if (masters && !same_rounding) continue;
        INFO(from.choice.name << " to " << to.choice.name << ", masters " << masters);
        WholeState continued;
        on_ranks(to, [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/out", .step = 1});
          optimizer.step();
          add_to(continued, optimizer.serialize());
        });
        const bool same = continued == (masters && to.choice.tp > 1 ? train(to, 2) : uninterrupted);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("P49: a transformer goes on at any layout as one device does", "[P49]") {
  std::vector<Setup> all = {setup_of("ddp", 4, "gpt2"),
                            setup_of("fsdp", 2, "gpt2"),
                            setup_of("tensor_parallel", 4, "gpt2"),
                            setup_of("pipeline_parallel", 3, "gpt2"),
                            setup_of("hybrid_sharded", 8, "gpt2"),
                            setup_of("pipeline_parallel", 2, "gpt2")};
  all[4].choice = hybrid_sharded(2, 2, 2, 2);
  // Stages down and up, with both ends, and so the tied weight, on the first rank.
  all[5].choice.name = "V placement";
  all[5].schedule = "zb_v";
  all[5].num_chunks = 2;
  for (Setup& setup : all) {
    // A key's bias has a gradient of rounding noise only, which Adam would blow up.
    setup.optimizer_options.epsilon = 1e-4;
    setup.training.num_microbatches = 4 / mesh_of(setup.choice, setup.ranks).data_size();
    // Dropped values and left-out targets are random, and must go on from where they were.
    setup.training.ignore_fraction = 0.2;
    setup.change_model = [](ModelOptions& model) {
      model.hidden_dropout = 0.1;
      model.num_layers = 4;
    };
  }
  const WholeState uninterrupted = train_alone(all.front(), 4);
  for (const Setup& from : all) {
    MemoryFileSystem disk;
    on_ranks(from, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 2; ++step) optimizer.step();
      optimizer.save_model(disk, "/out");
    });
    for (const Setup& to : all) {
      INFO(from.choice.name << " to " << to.choice.name);
      WholeState continued;
      on_ranks(to, [&](ShardedOptimizer& optimizer) {
        optimizer.load_model(disk, {.directory = "/out", .step = 2});
        for (int step = 0; step < 2; ++step) optimizer.step();
        add_to(continued, optimizer.serialize());
      });
      CHECK(worst_error(continued, uninterrupted) <= 1e-9);  // The oracle's bound.
    }
  }
}

TEST_CASE("P49: copies of key and value heads are saved once, and load at any layout", "[P49]") {
  std::vector<Setup> all;
  for (const std::int64_t groups : {1, 2}) {
    all = {setup_of("ddp", 2, "llama"), setup_of("tensor_parallel", 4, "llama"),
           setup_of("tensor_parallel", 2, "llama"), setup_of("hybrid_sharded", 8, "llama")};
    all[3].choice = hybrid_sharded(1, 4, 2);
    for (Setup& setup : all) {
      setup.training.num_microbatches = 4 / mesh_of(setup.choice, setup.ranks).data_size();
      setup.change_model = [groups](ModelOptions& model) {
        model.num_query_groups = groups;
        model.query_key_norm = QueryKeyNorm::whole;
        model.query_key_value_bias = true;
      };
    }
    const WholeState uninterrupted = train_alone(all.front(), 4);
    for (const Setup& from : all) {
      MemoryFileSystem disk;
      on_ranks(from, [&](ShardedOptimizer& optimizer) {
        for (int step = 0; step < 2; ++step) optimizer.step();
        optimizer.save_model(disk, "/out");
      });
      for (const Setup& to : all) {
        INFO(from.choice.name << " to " << to.choice.name << ", " << groups << " groups");
        WholeState continued;
        on_ranks(to, [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/out", .step = 2});
          for (int step = 0; step < 2; ++step) optimizer.step();
          add_to(continued, optimizer.serialize());
        });
        CHECK(worst_error(continued, uninterrupted) <= 1e-9);  // The oracle's bound.
      }
    }
  }
}

TEST_CASE("P49: a checkpoint of another seed, optimizer or precision is refused by all", "[P49]") {
  Setup saved = setup_of("zero2", 2);
  MemoryFileSystem disk;
  on_ranks(saved, [&](ShardedOptimizer& optimizer) { optimizer.save_model(disk, "/out"); });
  const auto refusal = [&](const Setup& setup) {
    return code_of([&] {
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        optimizer.load_model(disk, {.directory = "/out", .step = 0});
      });
    });
  };
  CHECK(refusal(saved) == "none");
  Setup other = saved;
  other.training.seed = 2;
  CHECK(refusal(other) == "E0810");
  other = saved;
  other.optimizer = "adamw";
  CHECK(refusal(other) == "E0810");
  other = saved;
  other.sync.weight_dtype = DType::fp32;
  CHECK(refusal(other) == "E0812");
}

TEST_CASE("P49: ranks that load their own layout open their own files, and rank 0 looks for all",
          "[P49]") {
  const Setup setup = setup_of("fsdp", 5);
  MemoryFileSystem disk;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) { optimizer.save_model(disk, "/out"); });
  disk.opens.clear();
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    optimizer.load_model(disk, {.directory = "/out", .step = 0});
  });
  CHECK(disk.opens.size() == 6);
  for (const auto& [path, times] : disk.opens) {
    INFO(path);
    // Every rank reads the manifest; its own file once, beside rank 0, which looks at each.
    CHECK(times == (path.ends_with("manifest.json") ? 5 : 2));
  }
}

TEST_CASE("P51: should_early_stop is the same on all ranks, at any world size", "[P51]") {
  for (const int ranks : {1, 2, 3, 5, 7, 16}) {
    Setup setup = setup_of("ddp", ranks);
    setup.options.early_stopping.minimum_change = 1e9;
    int stopped = 0;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      stopped += optimizer.should_early_stop() ? 100 : 0;  // Nothing has changed yet.
      optimizer.step();
      optimizer.step();
      stopped += optimizer.should_early_stop() ? 1 : 0;
    });
    CHECK(stopped == ranks);
  }
}

TEST_CASE("P52: synchronize_optimizer_state repairs every diverged copy", "[P52]") {
  std::vector<Setup> setups = {setup_of("ddp", 3), setup_of("zero1", 4), setup_of("fsdp", 4),
                               setup_of("tensor_parallel", 2, "gpt2"),
                               setup_of("hybrid_sharded", 8, "gpt2")};
  setups[1].choice.dp_replicate = 2;
  setups[2].choice.dp_replicate = 2;
  setups[4].choice = hybrid_sharded(2, 2, 2);
  for (std::size_t i = 0; i < 5; ++i) setups.push_back(with_masters(setups[i]));
  for (Setup setup : setups) {
    for (const bool offload : {false, true}) {
      setup.configuration.cpu_offload_optimizer = offload;
      const bool masters = setup.sync.weight_dtype != setup.sync.master_dtype;
      INFO(setup.choice.name << ", masters " << masters);
      int diverged = 0;
      int diverged_masters = 0;
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        optimizer.step();
        const SerializedState good = optimizer.serialize();
        // Whoever is no owner on some axis, of what others there have, too.
        const ShardedModel& model = optimizer.model();
        const MeshPlace place = model.place();
        const ModelPart part = model.plan().part(place);
        const bool sharded = setup.choice.zero_stage > 0;
        model.gradient_sync().visit(StateKind::optimizer_state, [&](const StatePiece& piece) {
          const ParameterSpec& spec =
              part.model->parameters()[static_cast<std::size_t>(piece.parameter)];
          const bool is_copy = place.dp_replicate > 0 || (!sharded && place.dp_shard > 0) ||
                               (place.tp > 0 && !spec.is_split()) || (place.pp > 0 && spec.tied);
          if (!is_copy) return;
          for (std::int64_t i = 0; i < piece.values.numel(); ++i) piece.values.set(i, 1234.0);
          ++diverged;
          if (piece.state == "master") ++diverged_masters;
        });
        optimizer.synchronize_optimizer_state();
        const bool repaired = bytes_of(optimizer.serialize()) == bytes_of(good);
        CHECK(repaired);
      });
      CHECK(diverged > 0);
      CHECK((diverged_masters > 0) == masters);
    }
  }
}

TEST_CASE("A plan without data trains, optimizes and synchronizes with the same trace",
          "[sharded_optimizer]") {
  for (const char* name : {"ddp", "zero2", "fsdp", "hybrid_sharded"}) {
    Setup setup = setup_of(name, 8, "gpt2");
    if (name == std::string("hybrid_sharded")) setup.choice = hybrid_sharded(2, 2, 2);
    setup.options.maximum_iterations = 3;
    setup.options.tolerance = 1e-30;
    setup.options.early_stopping.patience = 100;
    setup.options.regularization.l1 = 0.5;
    std::vector<std::uint64_t> hashes;
    for (const bool has_data : {true, false}) {
      setup.world.has_data = has_data;
      FiberWorld world(world_of(setup));
      on_ranks(world, setup, [](ShardedOptimizer& optimizer) {
        CHECK(optimizer.optimize().iterations() == 3);
        optimizer.synchronize_optimizer_state();
      });
      hashes.push_back(world.engine().trace_hash());
    }
    INFO(name);
    CHECK(hashes[0] == hashes[1]);
  }
}

}  // namespace shardsim::test
