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
