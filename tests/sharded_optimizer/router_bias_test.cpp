#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// The biases of the choice of experts: the same on every rank of every layout, in checkpoints, and
// nowhere else.
namespace shardsim::test {

namespace {

Setup biased_at(double update_rate, const ParallelChoice& choice, int ranks) {
  Setup setup = with_experts(choice, ranks, [update_rate](ModelOptions& model) {
    model.seq_len = 8;
    model.moe.router = {.score = RouterScore::sigmoid, .bias_update_rate = update_rate};
  });
  setup.training.max_grad_norm = 0.5;
  return setup;
}

Setup biased(const ParallelChoice& choice, int ranks) { return biased_at(0.02, choice, ranks); }

std::vector<Setup> biased_layouts() { return in_expert_layouts(biased); }

using Biases = std::map<std::string, std::vector<double>>;

bool is_bias(const std::string& name) { return name.rfind("router_bias/", 0) == 0; }

// All copies that a rank has; fails the test where it has others than `all`.
void check_copies(Biases& all, const SerializedState& state) {
  for (const SerializedState::Part& part : state.parts) {
    if (!is_bias(part.tensor.name)) continue;
    REQUIRE(part.tensor.dtype == DType::fp64);
    std::vector<double> values(part.bytes.size() / sizeof(double));
    std::memcpy(values.data(), part.bytes.data(), part.bytes.size());
    const auto known = all.try_emplace(part.tensor.name, values).first;
    CHECK(known->second == values);
  }
}

Biases biases_of(const WholeState& state) {
  Biases biases;
  for (const auto& [name, values] : state) {
    if (is_bias(name)) biases.emplace(name, values);
  }
  return biases;
}

}  // namespace

TEST_CASE("M9: biases of the choice are equal on all ranks and layouts, and move") {
  const Biases expected = biases_of(train(biased_layouts().front(), 3));
  REQUIRE(expected.size() == 2);  // The first block is dense.
  std::vector<double> sizes;
  for (const auto& [name, values] : expected) {
    for (const double value : values) {
      // Three steps up, down or neither.
      CHECK(std::fabs(value) <= 0.06 + 1e-12);
      sizes.push_back(std::fabs(value));
    }
  }
  CHECK(*std::max_element(sizes.begin(), sizes.end()) > 0.0);
  for (const Setup& setup : biased_layouts()) {
    INFO(setup.choice.name);
    Biases all;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      for (int step = 0; step < 3; ++step) optimizer.step();
      check_copies(all, optimizer.serialize());
    });
    CHECK(all == expected);
  }
}

TEST_CASE("M9: no parameter, gradient or optimizer state is a bias of the choice") {
  on_ranks(biased({.name = "ep4", .ep = 4}, 4), [&](ShardedOptimizer& optimizer) {
    optimizer.step();
    for (const ParameterSpec& spec : optimizer.model().wrapped_model().parameters()) {
      CHECK(spec.name.find("choice_bias") == std::string::npos);
    }
    for (const SerializedState::Part& part : optimizer.serialize().parts) {
      const bool named = part.tensor.name.find("choice_bias") != std::string::npos;
      CHECK(named == is_bias(part.tensor.name));
    }
  });
}

TEST_CASE("M16: a checkpoint holds biases of the choice, for any layout") {
  const std::vector<Setup> all = biased_layouts();
  const WholeState uninterrupted = train(all.front(), 3);
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
      CHECK((loaded == saved));  // Bit by bit.
      CHECK(biases_of(continued) == biases_of(uninterrupted));
      CHECK(worst_error(continued, uninterrupted) <= 1e-9);  // The oracle's bound.
    }
  }
}

TEST_CASE("a state without biases of the choice is no state of a model that has them") {
  MemoryFileSystem disk;
  on_ranks(biased_at(0.0, {.name = "ddp"}, 2), [&](ShardedOptimizer& optimizer) {
    optimizer.step();
    optimizer.save_model(disk, "/out");
  });
  CHECK(load_refusal(biased({.name = "ddp"}, 2), [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/out", .step = 1});
        }) == "E0812");
}

}  // namespace shardsim::test
