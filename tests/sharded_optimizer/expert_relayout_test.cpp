#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// P49 with experts: they are cut by number, the weights around them by shards, and either cut may
// be another when training goes on.
namespace shardsim::test {

namespace {

// Routed by what the router learns.
Setup learned(const ParallelChoice& choice, int ranks) {
  return with_experts(choice, ranks, [](ModelOptions& model) {
    model.seq_len = 6;
    model.moe.shared_ffn_hidden_size = 6;
  });
}

}  // namespace

TEST_CASE("P49: a model with experts goes on at any degree of expert parallelism", "[P49]") {
  const std::vector<Setup> all = in_expert_layouts(learned);
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
  for (const Setup& setup : in_expert_layouts(learned)) {
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
