#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// The optimizer's options are in its state, by name, and are compared when it is loaded.
namespace shardsim::test {

namespace {

// A setting that a state keeps, and where a setup has it.
struct Option {
  const char* name;
  bool is_read_by_adam;
  std::function<double&(Setup&)> place;

  double& value(Setup& setup) const { return place(setup); }
  double value(Setup&& setup) const { return place(setup); }
};

std::vector<Option> options() {
  std::vector<Option> all;
  const auto add = [&](const char* name, bool is_read, double OptimizerOptions::*member) {
    all.push_back({name, is_read,
                   [member](Setup& setup) -> double& { return setup.optimizer_options.*member; }});
  };
  add("optimizer.learning_rate", true, &OptimizerOptions::learning_rate);
  add("optimizer.momentum", false, &OptimizerOptions::momentum);
  add("optimizer.beta1", true, &OptimizerOptions::beta1);
  add("optimizer.beta2", true, &OptimizerOptions::beta2);
  add("optimizer.epsilon", true, &OptimizerOptions::epsilon);
  add("optimizer.weight_decay", true, &OptimizerOptions::weight_decay);
  add("optimizer.rms_alpha", false, &OptimizerOptions::rms_alpha);
  for (const auto& [name, member] : {std::pair("regularization.l1", &Regularization::l1),
                                     std::pair("regularization.l2", &Regularization::l2)}) {
    all.push_back({name, true, [place = member](Setup& setup) -> double& {
                     return setup.options.regularization.*place;
                   }});
  }
  return all;
}

// The state of a training that goes on from the states, after its next step.
WholeState after_a_step(const Setup& setup, const std::vector<SerializedState>& states,
                        SavedOptions saved) {
  WholeState whole;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    optimizer.deserialize(states, saved);
    optimizer.step();
    add_to(whole, optimizer.serialize());
  });
  return whole;
}

bool has_words(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("P49: a state of other optimizer options is refused, unless the caller keeps its own") {
  const Setup saved = setup_of("zero2", 2);
  const std::vector<SerializedState> states = states_after(saved, 1);
  for (const Option& option : options()) {
    INFO(option.name);
    Setup other = saved;
    option.value(other) = 0.0625;
    const double was = option.value(Setup(saved));
    const double is = option.value(other);
    std::string message;
    CHECK(load_refusal(other, [&](ShardedOptimizer& optimizer) {
            try {
              optimizer.deserialize(states);
            } catch (const CheckpointError& error) {
              message = error.what();
              throw;
            }
          }) == "E0810");
    CHECK(has_words(message, "\"" + std::string(option.name) + "\" is " +
                                shardsim::describe(ScalarValue(was))));
    CHECK(has_words(message, shardsim::describe(ScalarValue(is)) + " here"));
    CHECK(has_words(message, "SavedOptions::keep_own"));
    // It goes on as a training from a state with these options would.
    std::vector<SerializedState> agreeing = states;
    for (SerializedState& state : agreeing) state.scalars.insert_or_assign(option.name, is);
    const WholeState own = after_a_step(other, states, SavedOptions::keep_own);
    const bool same = own == after_a_step(other, agreeing, SavedOptions::must_agree);
    CHECK(same);
    const bool acts = own != after_a_step(saved, states, SavedOptions::must_agree);
    CHECK(acts == option.is_read_by_adam);
  }
}

TEST_CASE("P49: a checkpoint of other options is refused, and one that has none, by load_model") {
  Setup setup = setup_of("fsdp", 2);
  MemoryFileSystem disk;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) { optimizer.save_model(disk, "/out"); });
  const CheckpointPlace place{.directory = "/out", .step = 0};
  const OptimizerBody load = [&](ShardedOptimizer& optimizer) {
    optimizer.load_model(disk, place);
  };
  const OptimizerBody keep_own = [&](ShardedOptimizer& optimizer) {
    optimizer.load_model(disk, place, SavedOptions::keep_own);
  };
  CHECK(load_refusal(setup, load) == "none");
  setup.optimizer_options.learning_rate = 0.5;
  CHECK(load_refusal(setup, load) == "E0810");
  CHECK(load_refusal(setup, keep_own) == "none");
  // As states were before they had options.
  std::vector<SerializedState> old = states_after(setup, 1);
  for (SerializedState& state : old) {
    for (const Option& option : options()) CHECK(state.scalars.erase(option.name) == 1);
  }
  CHECK(load_refusal(setup, [&](ShardedOptimizer& optimizer) { optimizer.deserialize(old); }) ==
        "E0814");
  CHECK(load_refusal(setup, [&](ShardedOptimizer& optimizer) {
          optimizer.deserialize(old, SavedOptions::keep_own);
        }) == "none");
}

TEST_CASE("P49: ranks whose optimizers have different options do not save") {
  Setup setup = setup_of("fsdp", 3);
  MemoryFileSystem disk;
  FiberWorld world(world_of(setup));
  std::vector<std::string> codes(3);
  world.run([&](Runtime& runtime, Communicator& communicator) {
    Setup own = setup;
    if (communicator.rank() == 1) own.optimizer_options.beta2 = 0.5;
    const auto optimizer = make(own, runtime, communicator);
    codes[static_cast<std::size_t>(communicator.rank())] =
        code_of([&] { optimizer->save_model(disk, "/out"); });
  });
  CHECK(codes == std::vector<std::string>(3, "E0810"));
}

}  // namespace shardsim::test
