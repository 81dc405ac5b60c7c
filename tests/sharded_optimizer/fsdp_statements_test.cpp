#include <cerrno>
#include <cmath>
#include <limits>
#include <map>

#include <catch2/catch.hpp>

#include "strategies/checkpoint/load.hpp"
#include "strategies/checkpoint/names.hpp"

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// Statements F1 to F10: the document of FSDP.
namespace shardsim::test {

namespace {

// By rank, the code of the Error that `call` throws there. Nothing communicates within a handler.
std::vector<std::string> codes(const Setup& setup,
                               const std::function<void(ShardedOptimizer&)>& call) {
  std::vector<std::string> found(static_cast<std::size_t>(setup.ranks));
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    found[static_cast<std::size_t>(optimizer.rank())] = code_of([&] { call(optimizer); });
  });
  return found;
}

std::vector<std::string> all(int ranks, const std::string& code) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks), code);
}

// Codes of loading, which changes nothing where it fails.
std::vector<std::string> load_twice(const Setup& setup, FileSystem& files) {
  return codes(setup, [&](ShardedOptimizer& optimizer) {
    const auto load = [&] { optimizer.load_model(files, {.directory = "/out", .step = 0}); };
    const std::vector<std::byte> before = bytes_of(optimizer.serialize());
    const bool loaded = code_of(load) == "none";
    const bool untouched = loaded || bytes_of(optimizer.serialize()) == before;
    CHECK(untouched);
    if (!loaded) load();
  });
}

// Runs optimize: the validation loss of rank 1 gets worse in the third iteration.
void obeys_validation_of_one_rank(Setup setup) {
  setup.options.maximum_iterations = 20;
  FiberWorld world(world_of(setup));
  int stopped = 0;
  world.run([&](Runtime& runtime, Communicator& communicator) {
    Setup own = setup;
    int calls = 0;
    ShardedOptimizer* self = nullptr;
    own.options.early_stopping.validation_patience = 1;
    own.options.early_stopping.vote = [&] {  // Called after each iteration.
      self->report_validation_loss(++calls >= 2 && communicator.rank() == 1 ? 2.0 : 1.0 / calls);
      return false;
    };
    const auto optimizer = make(own, runtime, communicator);
    self = optimizer.get();
    const OptimizationResult result = optimizer->optimize();
    CHECK(result.reason == StopReason::early_stop);
    CHECK(result.iterations() == 3);
    ++stopped;
  });
  CHECK(stopped == setup.ranks);
}

// All must vote, so all must know the training loss, which in a pipeline only the last stage sees.
void obeys_training_loss(Setup setup) {
  const SmallestChange smallest = smallest_change(setup, 6);
  setup.options.maximum_iterations = 20;
  setup.options.early_stopping.policy = EarlyStopping::Policy::all;
  // The next number after it, as changes must be below.
  setup.options.early_stopping.minimum_change =
      std::nextafter(smallest.change, std::numeric_limits<double>::infinity());
  int stopped = 0;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    const OptimizationResult result = optimizer.optimize();
    CHECK(result.reason == StopReason::early_stop);
    CHECK(result.iterations() == smallest.iteration);
    ++stopped;
  });
  CHECK(stopped == setup.ranks);
}

}  // namespace

TEST_CASE("F1: without optimizer, or without a model, construction is an argument error", "[F1]") {
  const Setup setup = setup_of("fsdp", 2);
  FiberWorld world(world_of(setup));
  std::vector<std::string> found;
  world.run([&](Runtime& runtime, Communicator& communicator) {
    found.push_back(code_of([&] {
      (void)make_sharded_optimizer("fsdp", runtime, communicator, problem_of(setup), nullptr);
    }));
    ParallelOptions no_model = problem_of(setup);
    no_model.model = {};
    found.push_back(code_of([&] {
      (void)make_sharded_optimizer("fsdp", runtime, communicator, no_model,
                                   make_optimizer("sgd", {}));
    }));
    CHECK_THROWS_AS(make_sharded_optimizer("fsdp", runtime, communicator, no_model, nullptr),
                    UsageError);
  });
  REQUIRE(found.size() == 4);
  CHECK(found[0] == "E0781");
  CHECK(found[2] == "E0781");
  CHECK(found[1] == "E0625");
  CHECK(found[3] == "E0625");
}

TEST_CASE("F2: gradients are synchronized: those of all ranks' data, each in one shard", "[F2]") {
  Setup setup = exact(setup_of("fsdp", 4));
  // Plain SGD from equal weights: the weights after a step say what the gradient was.
  CHECK(worst_error(train(setup, 1), train_alone(setup, 1)) == 0.0);
  Setup other_data = setup;
  other_data.training.seed = 2;
  CHECK(worst_error(train(setup, 1), train_alone(other_data, 1)) > 0.01);
}

TEST_CASE("F3: momentum, variance and all other state are sharded", "[F3]") {
  const auto state_bytes = [](const FiberWorld& world, int rank) {
    return world.engine().rank(rank).ledger().category_peaks()[2];
  };
  for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop"}) {
    for (const bool masters : {false, true}) {
      INFO(optimizer << ", masters " << masters);
      const auto setup_on = [&](int ranks) {
        Setup setup = setup_of("fsdp", ranks, "gpt2");
        setup.optimizer = optimizer;
        return masters ? with_masters(setup) : setup;
      };
      FiberWorld alone(world_of(setup_on(1)));
      std::int64_t bytes_per_element = 0;
      std::int64_t elements = 0;
      on_ranks(alone, setup_on(1), [&](ShardedOptimizer& o) {
        o.step();
        const auto states = static_cast<std::int64_t>(o.wrapped_optimizer().state_names().size());
        bytes_per_element = masters ? (states + 1) * 4 : states * 8;
        elements = num_parameters(o.model().wrapped_model());
      });
      const std::int64_t whole = state_bytes(alone, 0);
      REQUIRE(whole == elements * bytes_per_element);
      for (const int ranks : {2, 3, 5}) {
        std::int64_t padding = 0;
        FiberWorld world(world_of(setup_on(ranks)));
        on_ranks(world, setup_on(ranks), [&](ShardedOptimizer& o) {
          o.step();
          const FlatLayout& layout = o.model().plan().layout(0);
          padding = (layout.padded() - layout.numel()) * bytes_per_element;
        });
        for (int rank = 0; rank < ranks; ++rank) {
          const std::int64_t bytes = state_bytes(world, rank);
          CHECK(bytes <= (whole + ranks - 1) / ranks + padding);
          CHECK(bytes * ranks >= whole);
        }
      }
    }
  }
}

TEST_CASE("F4: the update is that of one device", "[F4]") {
  for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop"}) {
    for (const int ranks : {1, 3, 4}) {
      Setup setup = setup_of("fsdp", ranks, "llama");
      setup.optimizer = optimizer;
      INFO(optimizer << " on " << ranks);
      CHECK(worst_error(train(setup, 4), train_alone(setup, 4)) <= kOracleBound);
    }
  }
}

TEST_CASE("F5: the documented example: an in-memory world of 4, then optimize", "[F5]") {
  Setup setup = setup_of("fsdp", 4);
  setup.options.maximum_iterations = 30;
  const WholeState reference = train_alone(setup, 30);
  FiberWorld world(world_of(setup));
  world.run([&](Runtime& runtime, Communicator& communicator) {
    const auto optimizer = make_sharded_optimizer(
        "fsdp", runtime, communicator, problem_of(setup),
        make_optimizer(setup.optimizer, setup.optimizer_options), {}, setup.options);
    CHECK(optimizer->world_size() == 4);
    const OptimizationResult result = optimizer->optimize();
    CHECK(result.iterations() == 30);
    WholeState whole;
    std::size_t i = 0;
    for (const ParameterSpec& spec : optimizer->model().wrapped_model().parameters()) {
      std::vector<double>& values = whole["parameter/" + spec.name];
      values.resize(static_cast<std::size_t>(spec.shape.numel()));
      load(result.parameters.at(i++).flat(), values);
    }
    WholeState parameters;
    for (const auto& [name, values] : reference) {
      if (name.rfind("parameter/", 0) == 0) parameters[name] = values;
    }
    CHECK(worst_error(whole, parameters) <= kOracleBound);
  });
}

TEST_CASE("F6: options are those of the wrapped optimizer, its rate included", "[F6]") {
  Setup setup = setup_of("fsdp", 2);
  setup.optimizer_options.learning_rate = 0.125;
  setup.options = {.maximum_iterations = 7,
                   .tolerance = 1e-3,
                   .regularization = {.l1 = 0.5, .l2 = 0.25},
                   .early_stopping = {}};
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    const EffectiveOptions options = optimizer.options();
    CHECK(options.learning_rate == 0.125);
    CHECK(options.maximum_iterations == 7);
    CHECK(options.tolerance == 1e-3);
    CHECK(options.regularization == Regularization{.l1 = 0.5, .l2 = 0.25});
  });
}

TEST_CASE("F7: early stopping gives every rank the same answer, by a policy of any or all",
          "[F7]") {
  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name << ", masters " << has_masters(setup));
    for (const EarlyStopping::Policy policy :
         {EarlyStopping::Policy::any, EarlyStopping::Policy::all}) {
      for (int voters = 0; voters <= setup.ranks; ++voters) {
        std::map<int, bool> answers;  // By rank.
        FiberWorld world(world_of(setup));
        world.run([&](Runtime& runtime, Communicator& communicator) {
          Setup own = setup;
          own.options.early_stopping.policy = policy;
          own.options.early_stopping.vote = [&] { return communicator.rank() < voters; };
          answers[communicator.rank()] = make(own, runtime, communicator)->should_early_stop();
        });
        const bool expected =
            policy == EarlyStopping::Policy::any ? voters > 0 : voters == setup.ranks;
        CHECK(answers.size() == static_cast<std::size_t>(setup.ranks));
        for (const auto& [rank, answer] : answers) CHECK(answer == expected);
      }
    }
  }
}

TEST_CASE("F7: early stopping is triggered by no improvement, worse validation, tiny change",
          "[F7]") {
  const auto stops_at = [](const EarlyStopping& rules, const std::vector<double>& losses,
                           bool are_validation) {
    LossHistory training;
    LossHistory validation;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      (are_validation ? validation : training).add(losses[i], rules.minimum_improvement);
      if (votes_to_stop(rules, training, validation)) return static_cast<int>(i);
    }
    return -1;
  };
  CHECK(stops_at({.patience = 2}, {5, 4, 4, 4.5, 3}, false) == 3);
  CHECK(stops_at({.patience = 2}, {5, 4, 4, 3.5, 3}, false) == -1);
  CHECK(stops_at({.patience = 2, .minimum_improvement = 1.0}, {5, 4.5, 4.25, 3}, false) == 2);
  CHECK(stops_at({.minimum_change = 0.25}, {5, 4, 3, 2.875, 1}, false) == 3);
  CHECK(stops_at({.validation_patience = 1}, {5, 4, 4.5}, true) == 2);
  CHECK(stops_at({.validation_patience = 1}, {5, 4, 4.5}, false) == -1);
  CHECK(stops_at({}, {5, 5, 6, 7, 7}, false) == -1);
  // A loss that is no number is no improvement, and later losses need not be below it.
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(stops_at({.patience = 2}, {kNan, 5, 4, 3, 2}, false) == -1);
  CHECK(stops_at({.patience = 2}, {kInfinity, 5, 4, 3, 2}, false) == -1);
  CHECK(stops_at({.patience = 2}, {5, kNan, kNan, 3, 2}, false) == 2);
  CHECK(stops_at({.patience = 2}, {5, kNan, 4, kNan, 3}, false) == -1);

  for (const Setup& setup : all_strategies()) {
    INFO(setup.choice.name << ", masters " << has_masters(setup));
    obeys_validation_of_one_rank(setup);
    obeys_training_loss(setup);
  }
}

TEST_CASE("F8: saving to a medium that fails or forbids is that error, on every rank", "[F8]") {
  struct Fault {
    int error_number;
    const char* code;
  };
  for (const Fault fault : {Fault{EIO, "E0803"}, Fault{EACCES, "E0802"}, Fault{ENOSPC, "E0804"}}) {
    for (int failing = 0; failing < 3; ++failing) {
      const Setup setup = setup_of("fsdp", 3);
      std::vector<MemoryFileSystem> disks(3);
      disks[static_cast<std::size_t>(failing)].fail_at = 3;
      disks[static_cast<std::size_t>(failing)].fail_with = fault.error_number;
      disks[static_cast<std::size_t>(failing)].keeps_failing = true;
      CHECK(codes(setup, [&](ShardedOptimizer& optimizer) {
              optimizer.save_model(disks[static_cast<std::size_t>(optimizer.rank())], "/out");
            }) == all(3, fault.code));
    }
  }
}

TEST_CASE("F9: what is not there is file-not-found, what cannot be read an I/O error, on all",
          "[F9]") {
  const Setup setup = setup_of("fsdp", 3);
  MemoryFileSystem disk;
  CHECK(codes(setup, [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(disk, {.directory = "/nowhere", .step = 1});
        }) == all(3, "E0801"));
  on_ranks(setup, [&](ShardedOptimizer& optimizer) { optimizer.save_model(disk, "/out"); });
  CHECK(load_twice(setup, disk) == all(3, "none"));
  // One rank's medium fails, at any call of the loading.
  for (int failing = 0; failing < 3; ++failing) {
    for (const int call : {1, 2, 3, 4}) {
      INFO("rank " << failing << ", call " << call);
      const std::unique_ptr<MemoryFileSystem> bad = disk.copy();
      bad->fail_at = call;
      bad->fail_with = EIO;
      bad->keeps_failing = true;
      CHECK(codes(setup, [&](ShardedOptimizer& optimizer) {
              MemoryFileSystem& own = optimizer.rank() == failing ? *bad : disk;
              optimizer.load_model(own, {.directory = "/out", .step = 0});
            }) == all(3, "E0803"));
    }
  }
}

TEST_CASE("F9: what is damaged or lacks a file is refused as that, nothing is loaded, on all",
          "[F9]") {
  const Setup setup = setup_of("fsdp", 3);
  MemoryFileSystem disk;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) { optimizer.save_model(disk, "/out"); });
  // One rank's file: ranks that do not read it must fail all the same.
  for (const std::string& path : disk.all_files()) {
    if (path.find("rank-") == std::string::npos) continue;
    INFO(path);
    const std::unique_ptr<MemoryFileSystem> changed = disk.copy();
    std::string text = disk.read_file(path);
    text[text.size() - 3] = static_cast<char>(text[text.size() - 3] ^ 1);
    changed->write_file(path, text);
    CHECK(load_twice(setup, *changed) == all(3, "E0805"));
    const std::unique_ptr<MemoryFileSystem> lacking = disk.copy();
    lacking->remove(path);
    CHECK(load_twice(setup, *lacking) == all(3, "E0807"));
  }
}

TEST_CASE("F10: save is serialize and write, load is read and deserialize", "[F10]") {
  const Setup setup = setup_of("fsdp", 3, "gpt2");
  MemoryFileSystem disk;
  std::vector<SerializedState> states(3);
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    optimizer.step();
    states[static_cast<std::size_t>(optimizer.rank())] = optimizer.serialize();
    optimizer.save_model(disk, "/out");
  });
  // The checkpoint holds the state that serialize gives.
  CheckpointReader reader(disk, {.directory = "/out", .step = 1});
  CHECK(reader.scalars() == states[0].scalars);
  for (const SerializedState& state : states) {
    for (const SerializedState::Part& part : state.parts) {
      std::vector<std::byte> bytes(part.bytes.size());
      const ChunkRequest request{part.tensor, part.elements, bytes};
      reader.load({&request, 1});
      const bool same = bytes == part.bytes;
      CHECK(same);
    }
  }
  // The loaded state is the one that deserialize gets.
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    optimizer.load_model(disk, {.directory = "/out", .step = 1});
    const SerializedState& own = states[static_cast<std::size_t>(optimizer.rank())];
    const bool same = bytes_of(optimizer.serialize()) == bytes_of(own);
    CHECK(same);
    CHECK(optimizer.model().steps() == 1);
  });
}

}  // namespace shardsim::test
