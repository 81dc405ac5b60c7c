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

// The same global batch of 8 samples in any layout.
Setup biased(const ParallelChoice& choice, int ranks, double update_rate = 0.02) {
  Setup setup = setup_of("ddp", ranks, "llama");
  setup.choice = choice;
  setup.training.num_microbatches = 8 / mesh_of(choice, ranks).data_size();
  setup.training.max_grad_norm = 0.5;
  setup.change_model = [sequence_parallel = choice.tp > 1, update_rate](ModelOptions& model) {
    model.num_layers = 3;
    model.seq_len = 8;
    model.sequence_parallel = sequence_parallel;
    model.moe.num_experts = 4;
    model.moe.experts_per_token = 2;
    model.moe.ffn_hidden_size = 6;
    model.moe.first_dense_layers = 1;
    model.moe.router = {.score = RouterScore::sigmoid, .bias_update_rate = update_rate};
  };
  return setup;
}

std::vector<Setup> biased_layouts() {
  return {
      biased({.name = "one device"}, 1),
      biased({.name = "ep4", .ep = 4}, 4),
      biased({.name = "zero3", .zero_stage = 3}, 2),
      biased({.name = "ep2 tp2 zero1", .zero_stage = 1, .tp = 2, .ep = 2}, 4),
      biased({.name = "ep2 zero3 pp2", .zero_stage = 3, .pp = 2, .ep = 2}, 8),
      biased({.name = "ep2 hsdp", .zero_stage = 2, .dp_replicate = 2, .ep = 2}, 8),
  };
}

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
  on_ranks(biased({.name = "ddp"}, 2, 0.0), [&](ShardedOptimizer& optimizer) {
    optimizer.step();
    optimizer.save_model(disk, "/out");
  });
  CHECK(load_refusal(biased({.name = "ddp"}, 2), [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/out", .step = 1});
        }) == "E0812");
}

}  // namespace shardsim::test
