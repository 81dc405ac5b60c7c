#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// All ranks refuse files and states that are not of one step of this training, and load nothing.
namespace shardsim::test {

TEST_CASE("P49: states of different steps are refused, on one rank and between ranks") {
  const Setup setup = setup_of("zero2", 3);
  const std::vector<SerializedState> second = states_after(setup, 2);
  const std::vector<SerializedState> fourth = states_after(setup, 4);
  const auto all_of = [](const std::vector<SerializedState>& states) {
    return [&states](ShardedOptimizer& optimizer) { optimizer.deserialize(states); };
  };
  CHECK(load_refusal(setup, all_of(second)) == "none");
  std::vector<SerializedState> mixed = second;
  mixed[1] = fourth[1];
  CHECK(load_refusal(setup, all_of(mixed)) == "E0810");
  CHECK(load_refusal(setup, [&](ShardedOptimizer& optimizer) {
          optimizer.deserialize(optimizer.rank() == 1 ? fourth : second);
        }) == "E0810");
  CHECK(load_refusal(setup, [&](ShardedOptimizer& optimizer) {
          optimizer.deserialize(std::span<const SerializedState>{});
        }) == "E0809");
}

TEST_CASE("P49: a state whose bytes are not what its elements take is refused") {
  const Setup setup = setup_of("fsdp", 2);
  const std::vector<SerializedState> states = states_after(setup, 1);
  for (const int change : {-8, -1, 8}) {
    std::vector<SerializedState> changed = states;
    std::vector<std::byte>& bytes = changed[1].parts.front().bytes;
    bytes.resize(static_cast<std::size_t>(static_cast<int>(bytes.size()) + change));
    CHECK(load_refusal(setup, [&](ShardedOptimizer& optimizer) {
            optimizer.deserialize(changed);
          }) == "E0811");
  }
}

TEST_CASE("P49: a state of another global batch is refused: its data are counted in batches") {
  const Setup four = setup_of("zero1", 2);
  Setup two = setup_of("zero1", 1);
  const std::vector<SerializedState> states = states_after(four, 1);
  const OptimizerBody load = [&](ShardedOptimizer& optimizer) { optimizer.deserialize(states); };
  CHECK(load_refusal(two, load) == "E0810");
  two.training.num_microbatches = 4;
  CHECK(load_refusal(two, load) == "none");
}

TEST_CASE("P49: nothing is loaded between gradients and their update") {
  const Setup setup = setup_of("ddp", 2);
  const std::vector<SerializedState> states = states_after(setup, 3);
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    optimizer.model().compute_gradients();
    CHECK(code_of([&] { optimizer.deserialize(states); }) == "E0779");
    optimizer.model().apply_gradients();
    CHECK(optimizer.model().steps() == 1);
    CHECK(code_of([&] { optimizer.deserialize(states); }) == "none");
    CHECK(optimizer.model().steps() == 3);
  });
}

TEST_CASE("validation losses are those of the run that goes on, not of the one before") {
  Setup setup = setup_of("ddp", 2);
  setup.options.early_stopping.validation_patience = 1;
  const std::vector<SerializedState> states = states_after(setup, 1);
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    optimizer.report_validation_loss(1.0);
    optimizer.report_validation_loss(2.0);
    CHECK(optimizer.should_early_stop());
    optimizer.deserialize(states);
    CHECK_FALSE(optimizer.should_early_stop());
    optimizer.report_validation_loss(2.0);  // The first, and so the best.
    CHECK_FALSE(optimizer.should_early_stop());
  });
}

}  // namespace shardsim::test
