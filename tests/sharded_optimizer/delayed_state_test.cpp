#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// Scales from the past are state of the training: the same in every layout, and in checkpoints.
namespace shardsim::test {

namespace {

// A step is all that scales change with, so the number of microbatches does not matter.
Setup delayed(const ParallelChoice& choice, int ranks) {
  Setup setup = with_experts(choice, ranks, [](ModelOptions& model) {
    model.num_layers = 2;
    model.seq_len = 8;
    model.low = {
        .recipe = ScalingRecipe::delayed, .amax_history_len = 3, .amax_compute = AmaxCompute::max};
  });
  setup.training.max_grad_norm = 0.5;
  return setup;
}

std::vector<Setup> delayed_layouts() {
  std::vector<Setup> layouts = in_expert_layouts(delayed);
  layouts.push_back(delayed({.name = "tp2 zero1", .zero_stage = 1, .tp = 2}, 4));
  return layouts;
}

WholeState scales_of(const WholeState& state) {
  WholeState scales;
  for (const auto& [name, values] : state) {
    if (name.rfind("amax_", 0) == 0) scales.emplace(name, values);
  }
  return scales;
}

}  // namespace

TEST_CASE("scales from the past are those of one device in every layout, and move") {
  const WholeState expected = scales_of(train(delayed_layouts().front(), 3));
  REQUIRE(!expected.empty());
  // An operand of a layer in low precision had elements, and 1 is no scale that they would have.
  for (const char* operand : {".input", ".weight", ".gradient"}) {
    for (const char* layer : {"blocks.1.experts.down", "blocks.0.mlp.down"}) {
      const std::string name = std::string(layer) + operand;
      INFO(name);
      for (const double value : expected.at("amax_history/" + name)) CHECK(value > 0.0);
      for (const double value : expected.at("amax_multiplier/" + name)) {
        CHECK(std::isfinite(value));
        CHECK(value != 1.0);
      }
    }
  }
  CHECK(expected.count("amax_history/embedding.tokens.input") == 0);
  for (const Setup& setup : delayed_layouts()) {
    INFO(setup.choice.name);
    const WholeState scales = scales_of(train(setup, 3));
    REQUIRE(scales.size() == expected.size());
    for (const auto& [name, values] : expected) {
      INFO(name);
      const auto& own = scales.at(name);
      REQUIRE(own.size() == values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Elements differ by the order of sums in fp64, so fp32 by a unit of its last place.
        CHECK(std::fabs(own[i] - values[i]) <= 2e-7 * std::fabs(values[i]));
      }
    }
  }
}

TEST_CASE("a training with scales from the past goes on in another layout as if nothing had been") {
  for (const Setup& from : delayed_layouts()) {
    MemoryFileSystem disk;
    WholeState saved;
    on_ranks(from, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 2; ++step) optimizer.step();
      optimizer.save_model(disk, "/out");
      add_to(saved, optimizer.serialize());
    });
    const WholeState uninterrupted = train(from, 4);
    for (const Setup& to : delayed_layouts()) {
      INFO(from.choice.name << " -> " << to.choice.name);
      WholeState loaded;
      WholeState continued;
      on_ranks(to, [&](ShardedOptimizer& optimizer) {
        optimizer.load_model(disk, {.directory = "/out", .step = 2});
        add_to(loaded, optimizer.serialize());
        for (int step = 0; step < 2; ++step) optimizer.step();
        add_to(continued, optimizer.serialize());
      });
      CHECK((loaded == saved));                              // Bit by bit.
      CHECK(worst_error(continued, uninterrupted) <= 1e-6);  // Scales are in fp32.
    }
  }
}

TEST_CASE("a state without scales from the past is no state of a model that has them") {
  MemoryFileSystem disk;
  Setup plain = delayed({.name = "ddp"}, 2);
  const auto change = plain.change_model;
  plain.change_model = [change](ModelOptions& model) {
    change(model);
    model.low = {};
  };
  on_ranks(plain, [&](ShardedOptimizer& optimizer) {
    optimizer.step();
    optimizer.save_model(disk, "/out");
  });
  CHECK(load_refusal(delayed({.name = "ddp"}, 2), [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/out", .step = 1});
        }) == "E0812");
}

}  // namespace shardsim::test
