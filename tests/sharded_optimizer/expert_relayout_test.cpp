#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// P49 with experts: they are cut by number, the weights around them by shards, and either cut may
// be another when training goes on.
namespace shardsim::test {

namespace {

// The same global batch of 8 samples in any layout, routed by what the router learns.
Setup with_experts(const ParallelChoice& choice, int ranks) {
  Setup setup = setup_of("ddp", ranks, "llama");
  setup.choice = choice;
  setup.training.num_microbatches = 8 / mesh_of(choice, ranks).data_size();
  setup.change_model = [sequence_parallel = choice.tp > 1](ModelOptions& model) {
    model.num_layers = 3;
    model.seq_len = 6;
    model.sequence_parallel = sequence_parallel;
    model.moe.num_experts = 4;
    model.moe.experts_per_token = 2;
    model.moe.ffn_hidden_size = 6;
    model.moe.shared_ffn_hidden_size = 6;
    model.moe.first_dense_layers = 1;
  };
  return setup;
}

std::vector<Setup> expert_layouts() {
  return {
      with_experts({.name = "one device"}, 1),
      with_experts({.name = "ep4", .ep = 4}, 4),
      with_experts({.name = "ep1 zero3", .zero_stage = 3}, 2),
      with_experts({.name = "ep2 tp2 zero1", .zero_stage = 1, .tp = 2, .ep = 2}, 4),
      with_experts({.name = "ep2 zero3 pp2", .zero_stage = 3, .pp = 2, .ep = 2}, 8),
      with_experts({.name = "ep2 hsdp", .zero_stage = 2, .dp_replicate = 2, .ep = 2}, 8),
  };
}

}  // namespace

TEST_CASE("P49: a model with experts goes on at any degree of expert parallelism", "[P49]") {
  const std::vector<Setup> all = expert_layouts();
  const WholeState uninterrupted = train_alone(all.front(), 3);
  for (const Setup& from : all) {
    MemoryFileSystem disk;
    WholeState saved;
    on_ranks(from, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 2; ++step) optimizer.step();
      add_to(saved, optimizer.serialize());
      optimizer.save_model(disk, "/out");
    });
    for (const Setup& to : all) {
      INFO(from.choice.name << " to " << to.choice.name);
      WholeState loaded;
      WholeState continued;
      on_ranks(to, [&](ShardedOptimizer& optimizer) {
        optimizer.load_model(disk, {.directory = "/out", .step = 2});
        add_to(loaded, optimizer.serialize());
        optimizer.step();
        add_to(continued, optimizer.serialize());
      });
      CHECK((loaded == saved));                              // Bit by bit.
      CHECK(worst_error(continued, uninterrupted) <= 1e-9);  // The oracle's bound.
    }
  }
}

TEST_CASE("P49: at the layout it was saved at, a model with experts goes on bit by bit", "[P49]") {
  for (const Setup& setup : expert_layouts()) {
    INFO(setup.choice.name);
    MemoryFileSystem disk;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      optimizer.step();
      optimizer.save_model(disk, "/out");
    });
    WholeState continued;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      optimizer.load_model(disk, {.directory = "/out", .step = 1});
      optimizer.step();
      add_to(continued, optimizer.serialize());
    });
    CHECK((continued == train(setup, 2)));
  }
}

TEST_CASE("expert-parallel ranks that do not fit a world are refused", "[sharded_optimizer]") {
  const auto code = [](const ParallelChoice& choice, int ranks) {
    return code_of([&] { static_cast<void>(mesh_of(choice, ranks)); });
  };
  CHECK(code({.name = "ddp", .ep = 4}, 4) == "none");
  CHECK(code({.name = "ddp", .ep = 0}, 4) == "E0771");
  CHECK(code({.name = "ddp", .ep = 3}, 4) == "E0771");
  CHECK(code({.name = "ddp", .pp = 2, .ep = 4}, 4) == "E0771");
  CHECK(code({.name = "ddp", .dp_replicate = 2, .ep = 4}, 4) == "E0771");
}

}  // namespace shardsim::test
