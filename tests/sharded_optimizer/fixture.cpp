#include "tests/sharded_optimizer/fixture.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "tests/backends/fiber_fixture.hpp"

namespace shardsim::test {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

double largest(const std::vector<double>& values) {
  double found = 0.0;
  for (const double value : values) found = std::fmax(found, std::fabs(value));
  return found;
}

std::string kind_of(const std::string& name) { return name.substr(0, name.find('/')); }

Tensor scratch(const SerializedState::Part& part) {
  const std::int64_t count = num_elements(part.elements);
  Tensor tensor =
      Tensor::allocate(nullptr, MemoryCategory::comm, {count}, part.tensor.dtype, false);
  std::memcpy(tensor.data(), part.bytes.data(), part.bytes.size());
  return tensor;
}

}  // namespace

Setup setup_of(std::string_view name, int ranks, const std::string& model) {
  Setup setup;
  setup.model = model;
  setup.choice = choice_of(name, ranks);
  setup.ranks = ranks;
  return setup;
}

Setup with_experts(const ParallelChoice& choice, int ranks,
                   const std::function<void(ModelOptions&)>& change) {
  Setup setup = setup_of("ddp", ranks, "llama");
  setup.choice = choice;
  setup.training.num_microbatches = 8 / mesh_of(choice, ranks).data_size();
  setup.change_model = [sequence_parallel = choice.tp > 1, change](ModelOptions& model) {
    model.num_layers = 3;
    model.sequence_parallel = sequence_parallel;
    model.moe.num_experts = 4;
    model.moe.experts_per_token = 2;
    model.moe.ffn_hidden_size = 6;
    model.moe.first_dense_layers = 1;
    if (change) change(model);
  };
  return setup;
}

std::vector<Setup> in_expert_layouts(
    const std::function<Setup(const ParallelChoice&, int ranks)>& make) {
  return {
      make({.name = "one device"}, 1),
      make({.name = "ep4", .ep = 4}, 4),
      make({.name = "ep1 zero3", .zero_stage = 3}, 2),
      make({.name = "ep2 tp2 zero1", .zero_stage = 1, .tp = 2, .ep = 2}, 4),
      make({.name = "ep2 zero3 pp2", .zero_stage = 3, .pp = 2, .ep = 2}, 8),
      make({.name = "ep2 hsdp", .zero_stage = 2, .dp_replicate = 2, .ep = 2}, 8),
  };
}

Setup exact(Setup setup) {
  setup.model = "integer mlp";
  setup.optimizer = "sgd";
  setup.optimizer_options = {.learning_rate = 0.25};
  return setup;
}

Setup with_masters(Setup setup) {
  setup.sync.weight_dtype = DType::bf16;
  setup.sync.gradient_dtype = DType::fp32;
  setup.sync.master_dtype = DType::fp32;
  return setup;
}

bool has_masters(const Setup& setup) { return setup.sync.weight_dtype != setup.sync.master_dtype; }

std::vector<Setup> in_both_precisions(std::vector<Setup> setups) {
  const std::size_t count = setups.size();
  for (std::size_t i = 0; i < count; ++i) {
    setups.push_back(with_masters(setups[i]));
  }
  return setups;
}

std::vector<Setup> all_strategies() {
  std::vector<Setup> setups = {setup_of("ddp", 3),
                               setup_of("zero1", 3),
                               setup_of("zero2", 3),
                               setup_of("zero3", 3, "tied llama"),
                               setup_of("fsdp", 3, "gpt2"),
                               setup_of("tensor_parallel", 2, "gpt2"),
                               setup_of("pipeline_parallel", 3, "tied llama"),
                               setup_of("hybrid_sharded", 8, "gpt2")};
  setups.back().choice = hybrid_sharded(2, 2, 2);
  return in_both_precisions(std::move(setups));
}

ParallelOptions problem_of(const Setup& setup) {
  ParallelOptions problem{.model = small_model(setup.model), .mesh = {}};
  problem.model.dtype = setup.sync.weight_dtype;
  if (setup.change_model) setup.change_model(problem.model);
  problem.bucket_bytes = setup.bucket_bytes;
  problem.first_bucket_bytes = setup.bucket_bytes;
  problem.schedule = setup.schedule;
  problem.num_chunks = setup.num_chunks;
  // Small models have few layers: their ends make stages, too.
  problem.stage_split.account_for_embedding = problem.model.family != "mlp";
  problem.stage_split.account_for_loss = true;
  problem.training = setup.training;
  problem.sync = setup.sync;
  return problem;
}

std::unique_ptr<ShardedOptimizer> make(const Setup& setup, Runtime& runtime, Communicator& world) {
  return std::make_unique<ShardedOptimizer>(
      runtime, world, problem_of(setup), make_optimizer(setup.optimizer, setup.optimizer_options),
      setup.choice, setup.configuration, setup.options);
}

FiberOptions world_of(const Setup& setup) {
  FiberOptions options = setup.world;
  options.cluster = test_cluster(setup.ranks);
  options.cluster.device.host_bytes_per_s = 25e9;
  return options;
}

void on_ranks(FiberWorld& world, const Setup& setup, const OptimizerBody& body) {
  world.run([&](Runtime& runtime, Communicator& communicator) {
    const std::unique_ptr<ShardedOptimizer> optimizer = make(setup, runtime, communicator);
    body(*optimizer);
  });
}

void on_ranks(const Setup& setup, const OptimizerBody& body) {
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, body);
}

std::vector<SerializedState> states_after(const Setup& setup, int steps) {
  std::vector<SerializedState> states(static_cast<std::size_t>(setup.ranks));
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    for (int step = 0; step < steps; ++step) optimizer.step();
    states[static_cast<std::size_t>(optimizer.rank())] = optimizer.serialize();
  });
  return states;
}

void for_each_element(const SerializedState::Part& part,
                      const std::function<void(std::size_t, double)>& visit) {
  const Tensor elements = scratch(part);
  std::int64_t at = 0;
  for (const ElementRun& run : part.elements) {
    for (std::int64_t i = 0; i < run.repeats * run.count; ++i) {
      visit(static_cast<std::size_t>(run.piece(i / run.count) + i % run.count), elements.get(at++));
    }
  }
}

void add_to(WholeState& whole, const SerializedState& state) {
  for (const SerializedState::Part& part : state.parts) {
    if (!part.main) continue;
    const auto numel = static_cast<std::size_t>(*checked_numel(part.tensor.shape));
    std::vector<double>& values =
        whole.try_emplace(part.tensor.name, numel, kMissing).first->second;
    for_each_element(part, [&values](std::size_t element, double found) {
      double& value = values.at(element);
      if (!std::isnan(value)) throw std::runtime_error("two ranks answer for one element");
      value = found;
    });
  }
}

WholeState train(const Setup& setup, int steps) {
  WholeState whole;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    for (int step = 0; step < steps; ++step) optimizer.step();
    add_to(whole, optimizer.serialize());
  });
  return whole;
}

namespace {

TrainingCase case_of(const Setup& setup, int steps) {
  TrainingCase c;
  c.model = problem_of(setup).model;
  c.mesh = mesh_of(setup.choice, setup.ranks);
  c.optimizer = setup.optimizer;
  c.optimizer_options = setup.optimizer_options;
  c.training = setup.training;
  c.training.steps = steps;
  return c;
}

void add_values(WholeState& whole, const TrainingCase& c, const std::string& kind,
                const Values& values) {
  const std::unique_ptr<Model> model = make_model(c.model);
  for (std::size_t i = 0; i < values.size(); ++i) {
    whole[kind + "/" + model->parameters()[i].name] = values[i];
  }
}

}  // namespace

WholeState train_alone(const Setup& setup, int steps) {
  const TrainingCase c = case_of(setup, steps);
  const std::vector<StepRecord> records = train_alone(c);
  WholeState whole;
  for (const auto& [kind, values] : records.back().values) {
    if (kind != "gradient") add_values(whole, c, kind, values);
  }
  return whole;
}

std::vector<double> losses_alone(const Setup& setup, int steps) {
  std::vector<double> losses;
  for (const StepRecord& record : train_alone(case_of(setup, steps))) {
    losses.push_back(record.loss.value());
  }
  return losses;
}

WholeState gradients_alone(const Setup& setup, int step) {
  const TrainingCase c = case_of(setup, step + 1);
  WholeState whole;
  add_values(whole, c, "gradient", train_alone(c).back().values.at("gradient"));
  return whole;
}

void add_gradients_to(WholeState& whole, const ShardedOptimizer& optimizer) {
  const ShardedModel& model = optimizer.model();
  const ModelPart part = model.plan().part(model.place());
  model.gradient_sync().visit(StateKind::gradient, [&](const StatePiece& piece) {
    for_each_whole_piece(part, piece, [&](const WholePiece& found) {
      const ParameterSpec& spec =
          model.wrapped_model().parameters()[static_cast<std::size_t>(found.piece.parameter)];
      std::vector<double>& values =
          whole
              .try_emplace("gradient/" + spec.name, static_cast<std::size_t>(spec.shape.numel()),
                           kMissing)
              .first->second;
      for (std::int64_t i = 0; i < found.piece.values.numel(); ++i) {
        double& value = values.at(static_cast<std::size_t>(found.piece.first + i));
        if (!std::isnan(value) && value != found.piece.values.get(i)) {
          throw std::runtime_error("ranks disagree on a gradient of " + spec.name);
        }
        value = found.piece.values.get(i);
      }
    });
  });
}

double worst_error(const WholeState& actual, const WholeState& reference) {
  std::map<std::string, double> largest_of_kind;
  for (const auto& [name, values] : reference) {
    double& found = largest_of_kind[kind_of(name)];
    found = std::fmax(found, largest(values));
  }
  if (actual.size() != reference.size()) return INFINITY;
  double worst = 0.0;
  for (const auto& [name, values] : reference) {
    const auto found = actual.find(name);
    if (found == actual.end() || found->second.size() != values.size()) return INFINITY;
    const double scale = std::fmax(largest(values), 1e-6 * largest_of_kind[kind_of(name)]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = std::fabs(found->second[i] - values[i]);
      if (std::isnan(difference)) return INFINITY;
      if (difference > 0.0) worst = std::fmax(worst, difference / scale);
    }
  }
  return worst;
}

std::string load_refusal(const Setup& setup, const OptimizerBody& load) {
  std::vector<std::string> codes(static_cast<std::size_t>(setup.ranks));
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    const std::vector<std::byte> before = bytes_of(optimizer.serialize());
    std::string& code = codes[static_cast<std::size_t>(optimizer.rank())];
    code = code_of([&] { load(optimizer); });
    if (code == "none") return;
    if (bytes_of(optimizer.serialize()) != before || optimizer.model().steps() != 0) {
      throw std::runtime_error("a load that was refused has changed something");
    }
  });
  for (const std::string& code : codes) {
    if (code != codes.front()) throw std::runtime_error("ranks see different errors");
  }
  return codes.front();
}

std::vector<std::byte> bytes_of(const SerializedState& state) {
  std::vector<std::byte> bytes;
  for (const SerializedState::Part& part : state.parts) {
    bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  }
  return bytes;
}

SmallestChange smallest_change(const Setup& setup, std::int64_t iterations) {
  Setup own = setup;
  own.options.maximum_iterations = iterations;
  std::vector<std::vector<double>> losses(static_cast<std::size_t>(setup.ranks));
  on_ranks(own, [&](ShardedOptimizer& optimizer) {
    losses[static_cast<std::size_t>(optimizer.rank())] = optimizer.optimize().losses;
  });
  for (const std::vector<double>& of_rank : losses) {
    if (of_rank != losses.front()) throw std::runtime_error("ranks know different losses");
  }
  SmallestChange found{.change = std::numeric_limits<double>::infinity()};
  for (std::size_t i = 1; i < losses.front().size(); ++i) {
    const double change = std::fabs(losses.front()[i] - losses.front()[i - 1]);
    if (change < found.change) found = {change, static_cast<std::int64_t>(i) + 1};
  }
  return found;
}

}  // namespace shardsim::test
