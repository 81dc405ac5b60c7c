#include <cmath>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// Every field of the configuration and of the options acts, and acts alike however state is cut.
namespace shardsim::test {

namespace {

struct Outcome {
  MemoryUse device{};
  MemoryUse host{};
  Time time;
  WholeState whole;
};

Outcome run(const Setup& setup) {
  Outcome outcome;
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
    for (int step = 0; step < 2; ++step) optimizer.step();
    add_to(outcome.whole, optimizer.serialize());
  });
  const RankState& rank = world.engine().rank(0);
  outcome.device = rank.ledger().category_peaks();
  outcome.host = rank.host_ledger().category_peaks();
  outcome.time = rank.now();
  return outcome;
}

}  // namespace

TEST_CASE("Configuration: the learning rate is that of a model without optimizer", "[config]") {
  for (const double rate : {0.25, 0.5}) {
    Setup setup = exact(setup_of("fsdp", 2));
    setup.configuration.learning_rate = rate;
    setup.optimizer_options.learning_rate = rate;
    WholeState whole;
    FiberWorld world(world_of(setup));
    world.run([&](Runtime& runtime, Communicator& communicator) {
      const auto model =
          make_sharded_model("fsdp", runtime, communicator, problem_of(setup), setup.configuration);
      CHECK(model->train_step() >= 0.0);
      for (const ParameterShard& shard : model->local_parameter_shard()) {
        const ParameterSpec& spec =
            model->wrapped_model().parameters()[static_cast<std::size_t>(shard.parameter)];
        std::vector<double>& values = whole["parameter/" + spec.name];
        values.resize(static_cast<std::size_t>(spec.shape.numel()));
        for (std::int64_t i = 0; i < shard.values.numel(); ++i) {
          values[static_cast<std::size_t>(shard.first + i)] = shard.values.get(i);
        }
      }
    });
    CHECK(worst_error(whole, train_alone(setup, 1)) == 0.0);
  }
  Setup bad = setup_of("ddp", 1);
  bad.configuration.learning_rate = 0.0;
  CHECK(code_of([&] { (void)train(bad, 0); }) == "E0773");
}

TEST_CASE("Configuration: without automatic synchronization gradients stay local until asked",
          "[config]") {
  for (const char* name : {"ddp", "zero1", "zero2", "fsdp", "hybrid_sharded"}) {
    INFO(name);
    Setup setup = setup_of(name, 4);
    if (name == std::string("hybrid_sharded")) setup.choice = hybrid_sharded(2, 1, 2);
    const WholeState reference = gradients_alone(setup, 0);
    setup.configuration.auto_sync_gradients = false;
    WholeState gradients;
    setup.world.traced_ranks = {0};
    FiberWorld traced(world_of(setup));
    on_ranks(traced, setup, [&](ShardedOptimizer& optimizer) {
      ShardedModel& model = optimizer.model();
      const auto calls = [&] {
        std::int64_t count = 0;
        for (const TraceTrack& track : traced.engine().rank(0).trace()->tracks) {
          for (const TraceSlice& slice : track.slices) {
            const std::string call = slice.name;
            // FSDP gathers weights; nothing else may have been sent but activations and scalars.
            count += call == "reduce_scatter" || (call == "all_reduce" && slice.label != "loss");
          }
        }
        return count;
      };
      CHECK(code_of([&] { model.apply_gradients(); }) == "E0780");
      model.compute_gradients();
      if (optimizer.rank() == 0) CHECK(calls() == 0);
      CHECK(code_of([&] { model.apply_gradients(); }) == "E0780");
      CHECK(code_of([&] { model.compute_gradients(); }) == "E0779");
      model.synchronize_gradients();
      if (optimizer.rank() == 0) CHECK(calls() > 0);
      CHECK(code_of([&] { model.synchronize_gradients(); }) == "E0780");
      add_gradients_to(gradients, optimizer);
      model.apply_gradients();
      CHECK(model.steps() == 1);
    });
    CHECK(worst_error(gradients, reference) <= kOracleBound);
    Setup automatic = setup;
    automatic.configuration.auto_sync_gradients = true;
    const bool same = train(setup, 3) == train(automatic, 3);
    // The same sums in the same order where microbatches are not reduced one by one.
    if (automatic.choice.zero_stage < 2) CHECK(same);
    CHECK(worst_error(train(setup, 3), train(automatic, 3)) <= kOracleBound);
  }
}

TEST_CASE("Configuration: groups of parameters have the minimum size, whatever their number",
          "[config]") {
  for (const char* name : {"ddp", "zero1", "zero2", "fsdp"}) {
    std::size_t groups_before = 1000;
    WholeState reference;
    for (const std::int64_t minimum : {0, 60, 150, 400, 1 << 20}) {
      INFO(name << ", at least " << minimum);
      Setup setup = setup_of(name, 3, "llama");
      setup.bucket_bytes = 8;
      setup.configuration.minimum_parameter_group_size = minimum;
      std::size_t groups = 0;
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        const auto chunks = optimizer.model().plan().layout(0).chunks();
        groups = chunks.size();
        for (std::size_t i = 0; i + 1 < chunks.size(); ++i) CHECK(chunks[i].numel >= minimum);
      });
      CHECK((minimum == 0 || groups <= groups_before));
      groups_before = groups;
      const WholeState whole = train(setup, 2);
      if (reference.empty()) reference = whole;
      CHECK(worst_error(whole, reference) <= kOracleBound);
    }
    CHECK(groups_before == 1);
  }
  Setup bad = setup_of("ddp", 1);
  bad.configuration.minimum_parameter_group_size = -1;
  CHECK(code_of([&] { (void)train(bad, 0); }) == "E0774");
}

TEST_CASE(
    "Configuration: compression is refused where gradients are not whole, saving with it, too",
    "[config]") {
  for (const char* name : {"zero1", "zero2", "fsdp"}) {
    Setup setup = setup_of(name, 2);
    setup.configuration = low_bandwidth_configuration();
    CHECK(code_of([&] { (void)train(setup, 0); }) == "E0775");
  }
  Setup setup = setup_of("tensor_parallel", 2, "llama");
  setup.configuration = low_bandwidth_configuration();
  CHECK(code_of([&] { (void)train(setup, 0); }) == "E0796");
  setup = setup_of("ddp", 2);
  setup.configuration = low_bandwidth_configuration();
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    (void)optimizer.step();
    CHECK(code_of([&] { (void)optimizer.serialize(); }) == "E0797");
  });
}

TEST_CASE("Configuration: the presets are the specification's", "[config]") {
  CHECK(low_bandwidth_configuration().minimum_parameter_group_size == 4096);
  CHECK(high_bandwidth_configuration().minimum_parameter_group_size == 512);
  CHECK(ShardingConfiguration{}.minimum_parameter_group_size == 1024);
  CHECK(ShardingConfiguration{}.learning_rate == 0.01);
  CHECK(zero_offload_configuration().cpu_offload_optimizer);
  CHECK_FALSE(zero_offload_configuration().cpu_offload_parameters);
  CHECK(zero_offload_full_configuration().cpu_offload_parameters);
}

TEST_CASE("Configuration: offloading moves bytes to the host and costs time, and no value",
          "[config]") {
  struct Field {
    bool ShardingConfiguration::*flag;
    std::size_t category;
    std::vector<const char*> strategies;
  };
  const std::vector<Field> fields = {
      {&ShardingConfiguration::cpu_offload_parameters, 0, {"fsdp"}},
      {&ShardingConfiguration::cpu_offload_gradients, 1, {"zero2", "fsdp"}},
      {&ShardingConfiguration::cpu_offload_optimizer, 2, {"ddp", "zero1", "zero2", "fsdp"}},
  };
  for (const Field& field : fields) {
    for (const char* name : field.strategies) {
      INFO(name << ", category " << field.category);
      Setup setup = setup_of(name, 3, "llama");
      setup.bucket_bytes = 800;
      setup.training.max_grad_norm = 0.1;
      setup.sync.reductions_in_flight = 0;
      const Outcome before = run(setup);
      setup.configuration.*field.flag = true;
      const Outcome after = run(setup);
      const bool same = after.whole == before.whole;
      CHECK(same);
      CHECK(after.time > before.time);
      CHECK(after.device.at(field.category) < before.device.at(field.category));
      CHECK(before.host == MemoryUse{});
      for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
        CHECK((after.host.at(i) > 0) == (i == field.category));
        if (i != field.category) CHECK(after.device.at(i) == before.device.at(i));
      }
    }
  }
}

TEST_CASE("Configuration: what cannot be offloaded is refused by name", "[config]") {
  const auto refusal = [](const char* name, const ShardingConfiguration& configuration) {
    Setup setup = setup_of(name, 2, "gpt2");
    setup.configuration = configuration;
    return code_of([&] { (void)train(setup, 1); });
  };
  CHECK(refusal("ddp", {.cpu_offload_gradients = true}) == "E0776");
  CHECK(refusal("zero1", {.cpu_offload_gradients = true}) == "E0776");
  CHECK(refusal("tensor_parallel", {.cpu_offload_gradients = true}) == "E0776");
  CHECK(refusal("zero2", {.cpu_offload_parameters = true}) == "E0777");
  CHECK(refusal("fsdp", zero_offload_full_configuration()) == "none");
  CHECK(refusal("zero2", zero_offload_configuration()) == "none");
  const Setup setup = setup_of("zero1", 2);
  FiberOptions options = world_of(setup);
  options.cluster.device.host_bytes_per_s = 0.0;
  Setup offloaded = setup;
  offloaded.configuration.cpu_offload_optimizer = true;
  FiberWorld world(options);
  CHECK(code_of([&] {
          on_ranks(world, offloaded, [](ShardedOptimizer& optimizer) { optimizer.step(); });
        }) == "E0402");
}

TEST_CASE("Options: L1 and L2 are terms of the gradient, element by element", "[options]") {
  LocalRuntime runtime;
  const auto tensor = [&](const std::vector<double>& values) {
    const Tensor made = runtime.allocate(MemoryCategory::params,
                                         {static_cast<std::int64_t>(values.size())}, DType::fp64);
    store(made, values);
    return made;
  };
  const auto sgd = make_optimizer("sgd", {.learning_rate = 1.0});
  const RegularizedOptimizer optimizer(*sgd, {.l1 = 0.5, .l2 = 0.25});
  const Tensor weights = tensor({4.0, -2.0, 0.0});
  // Clipping by a half is of the gradient of the loss, not of the penalty.
  optimizer.step(runtime, weights, tensor({2.0, 4.0, 8.0}), {}, 0.5, 1);
  CHECK(weights.get(0) == 4.0 - (1.0 + 0.5 + 1.0));
  CHECK(weights.get(1) == -2.0 - (2.0 - 0.5 - 0.5));
  CHECK(weights.get(2) == 0.0 - 4.0);
  CHECK(code_of([&] { RegularizedOptimizer(*sgd, {.l1 = -1.0}); }) == "E0778");
  CHECK(code_of([&] { RegularizedOptimizer(*sgd, {.l2 = NAN}); }) == "E0778");
}

TEST_CASE("Options: muon, whose settings no checkpoint of a sharded model has, is refused") {
  Setup setup = setup_of("zero1", 2, "llama");
  CHECK(code_of([&] { (void)train(setup, 1); }) == "none");
  setup.sync.muon.emplace();
  CHECK(code_of([&] { (void)train(setup, 1); }) == "E0704");
}

TEST_CASE("Options: regularization is the same under any sharding", "[options]") {
  for (const NamedChoice& choice : named_choices()) {
    Setup setup = setup_of(choice.name, choice.name == "pipeline_parallel" ? 3 : 2, "llama");
    setup.training.num_microbatches = 12 / mesh_of(setup.choice, setup.ranks).data_size();
    setup.options.regularization = {.l1 = 0.01, .l2 = 0.02};
    Setup alone = setup_of("ddp", 1, "llama");
    alone.training.num_microbatches = 12;
    const WholeState plain = train(alone, 3);
    alone.options.regularization = setup.options.regularization;
    INFO(choice.name);
    CHECK(worst_error(train(setup, 3), train(alone, 3)) <= kOracleBound);
    CHECK(worst_error(train(setup, 3), plain) > 1e-3);
    // L2 alone is what torch's SGD calls weight decay: a reference that has no such decorator.
    Setup decayed = setup;
    decayed.optimizer = "sgd";
    decayed.optimizer_options = {.learning_rate = 0.01, .weight_decay = 0.02};
    Setup penalized = decayed;
    penalized.optimizer_options.weight_decay = 0.0;
    penalized.options.regularization = {.l1 = 0.0, .l2 = 0.02};
    CHECK(worst_error(train(penalized, 3), train_alone(decayed, 3)) <= kOracleBound);
  }
}

TEST_CASE("Options: regularization loses nothing of gradients whose loss is scaled", "[options]") {
  // In the gradients' own dtype the sum would be rounded, or vanish.
  Setup setup = setup_of("fsdp", 2, "llama");
  setup.sync.gradient_dtype = DType::fp16;
  setup.training.loss_scaling = {.mode = LossScaling::Mode::constant, .initial_scale = 0x1p10};
  setup.optimizer = "sgd";
  setup.optimizer_options = {.learning_rate = 0.01, .weight_decay = 0x1p-20};
  const WholeState decayed = train(setup, 3);
  setup.optimizer_options.weight_decay = 0.0;
  setup.options.regularization = {.l1 = 0.0, .l2 = 0x1p-20};
  // The same sums, in the same width.
  CHECK(worst_error(train(setup, 3), decayed) <= 1e-15);
}

}  // namespace shardsim::test
