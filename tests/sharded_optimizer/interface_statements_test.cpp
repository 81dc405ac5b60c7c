#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"
#include "tests/sharded_optimizer/own_optimizers.hpp"

// Statements I1 and I2: the interface.
namespace shardsim::test {

TEST_CASE("I1: the wrapped optimizer, rank, world size and configuration are there to see",
          "[I1]") {
  for (const NamedChoice& choice : named_choices()) {
    Setup setup = setup_of(choice.name, 2);
    setup.configuration.minimum_parameter_group_size = 77;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      CHECK(optimizer.wrapped_optimizer().name() == "adam");
      CHECK((optimizer.rank() == 0 || optimizer.rank() == 1));
      CHECK(optimizer.world_size() == 2);
      CHECK(optimizer.sharding_configuration() == setup.configuration);
      optimizer.synchronize_optimizer_state();
    });
  }
}

TEST_CASE("I2: any optimizer is wrapped unchanged, one of the user's own, too", "[I2]") {
  std::map<std::string, std::vector<double>> reference;
  for (const NamedChoice& choice : named_choices()) {
    Setup setup = exact(setup_of(choice.name, 2));
    // The same global batch of four at any data-parallel size.
    setup.training.num_microbatches = 4 / mesh_of(setup.choice, 2).data_size();
    WholeState whole;
    FiberWorld world(world_of(setup));
    world.run([&](Runtime& runtime, Communicator& communicator) {
      const auto optimizer =
          make_sharded_optimizer(choice.name, runtime, communicator, problem_of(setup),
                                 std::make_unique<SignSgd>(), setup.configuration);
      for (int step = 0; step < 3; ++step) optimizer->step();
      add_to(whole, optimizer->serialize());
    });
    INFO(choice.name);
    if (reference.empty()) reference = whole;
    REQUIRE(whole.size() == reference.size());
    for (const auto& [name, values] : whole) {
      const bool same = values == reference.at(name);
      CHECK(same);
      if (name.rfind("count/", 0) == 0) CHECK(values.front() == 3.0);
    }
  }
}

TEST_CASE("I2: an optimizer may keep more states than any of ours, offloaded or not", "[I2]") {
  std::vector<WholeState> results;
  for (const bool offload : {false, true}) {
    for (const auto& [named, ranks] : {std::pair("ddp", 1), std::pair("fsdp", 3),
                                       std::pair("zero2", 2), std::pair("tensor_parallel", 2)}) {
      const char* const name = named;  // Clang 14 captures no structured binding.
      Setup setup = setup_of(name, ranks, "llama");
      setup.training.num_microbatches = 6 / mesh_of(setup.choice, ranks).data_size();
      setup.configuration.cpu_offload_optimizer = offload;
      FiberWorld world(world_of(setup));
      WholeState& whole = results.emplace_back();
      world.run([&](Runtime& runtime, Communicator& communicator) {
        const auto optimizer =
            make_sharded_optimizer(name, runtime, communicator, problem_of(setup),
                                   std::make_unique<AmsGrad>(), setup.configuration);
        for (int step = 0; step < 3; ++step) optimizer->step();
        add_to(whole, optimizer->serialize());
      });
      INFO(name << ", offload " << offload);
      CHECK(worst_error(whole, results.front()) <= 1e-9);  // The oracle's bound.
    }
  }
  CHECK(results.front().count("largest_square/" + std::string("embedding.tokens")) == 1);
}

TEST_CASE("states whose names are taken, empty or given twice are refused by name", "[I2]") {
  const auto refused = [](std::vector<std::string_view> names) {
    const Setup setup = setup_of("ddp", 1);
    return code_of([&] {
      FiberWorld world(world_of(setup));
      world.run([&](Runtime& runtime, Communicator& communicator) {
        (void)make_sharded_optimizer("ddp", runtime, communicator, problem_of(setup),
                                     std::make_unique<Named>(names));
      });
    });
  };
  CHECK(refused({"a", "b"}) == "none");
  for (const char* name : {"parameter", "master", "gradient", "", "a"}) {
    CHECK(refused({"a", name}) == "E0788");
  }
}

TEST_CASE("An unknown name of an optimizer is an argument error that names all", "[I2]") {
  try {
    (void)choice_of("zero4", 2);
    FAIL("zero4 exists");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E0772");
    CHECK(error.fix().find("hybrid_sharded") != std::string::npos);
  }
}

}  // namespace shardsim::test
