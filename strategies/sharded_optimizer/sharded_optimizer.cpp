#include "strategies/sharded_optimizer/sharded_optimizer.hpp"

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/gradient_sync/owned_state.hpp"
#include "strategies/sharded_optimizer/other_data_parallelism.hpp"

namespace shardsim {

namespace {

void require_of_stopping(bool holds, const char* name, const std::string& value, const char* fix) {
  if (!holds) {
    throw UsageError("E0793", "early stopping: " + std::string(name) + " is " + value, fix);
  }
}

void require_count(const char* name, std::int64_t count) {
  require_of_stopping(count >= 0, name, std::to_string(count),
                      "count 1 or more, or use 0 for never");
}

void require_finite(const char* name, double size) {
  require_of_stopping(std::isfinite(size) && size >= 0.0, name, std::to_string(size),
                      "give a finite number, 0 or more");
}

void require_penalty(const char* name, double value) {
  if (!(std::isfinite(value) && value >= 0.0)) {
    throw UsageError("E0778", std::string(name) + " regularization is " + std::to_string(value),
                     "give a finite strength, 0 or more");
  }
}

double sign(double value) {
  return static_cast<double>(value > 0.0) - static_cast<double>(value < 0.0);
}

// In checkpoints, state stands beside weights and their masters.
void require_own_names(const Optimizer& optimizer) {
  std::set<std::string_view> taken = {"parameter", "master", "gradient"};
  for (const std::string_view name : optimizer.state_names()) {
    if (!name.empty() && taken.insert(name).second) continue;
    throw UsageError(
        "E0788",
        "optimizer " + std::string(optimizer.name()) + " calls a state \"" + std::string(name) +
            "\", which is no name, or taken",
        "give each state a name of its own, other than parameter, master and gradient");
  }
}

std::unique_ptr<Optimizer> checked(std::unique_ptr<Optimizer> wrapped) {
  if (wrapped == nullptr) {
    throw UsageError("E0781", "a sharded optimizer was given no optimizer to wrap",
                     "pass one of make_optimizer, or your own");
  }
  require_own_names(*wrapped);
  if (wrapped->update_rule() == UpdateRule::elementwise) return wrapped;
  const bool has_norms = wrapped->update_rule() == UpdateRule::norm_based;
  throw UsageError("E0782",
                   "optimizer " + std::string(wrapped->name()) +
                       (has_norms ? " needs norms of whole parameters, of which a rank has a part"
                                  : " does not work on gradients"),
                   "wrap a gradient-based optimizer that updates each element by itself");
}

const OptimizationOptions& checked(const OptimizationOptions& options) {
  // A tolerance without end would call the first loss converged.
  const bool tolerates = std::isfinite(options.tolerance) && options.tolerance >= 0.0;
  if (options.maximum_iterations < 0 || !tolerates) {
    throw UsageError("E0783",
                     "optimize: at most " + std::to_string(options.maximum_iterations) +
                         " iterations, tolerance " + std::to_string(options.tolerance),
                     "give finite numbers, 0 or more");
  }
  validate(options.early_stopping);
  return options;
}

}  // namespace

RegularizedOptimizer::RegularizedOptimizer(const Optimizer& inner, const Regularization& penalty)
    : inner_(inner), penalty_(penalty) {
  require_penalty("L1", penalty.l1);
  require_penalty("L2", penalty.l2);
}

void RegularizedOptimizer::step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
                                std::span<const Tensor> state, double gradient_scale,
                                std::int64_t step) const {
  if (!penalty_.acts()) {
    return inner_.step(runtime, parameter, gradient, state, gradient_scale, step);
  }
  // As wide as the weights: a gradient without its loss scale may be too small for its own dtype.
  const Tensor sum =
      runtime.allocate(MemoryCategory::optimizer, gradient.shape(), parameter.dtype());
  const std::int64_t bytes = parameter.num_bytes() + gradient.num_bytes() + sum.num_bytes();
  runtime.compute(memory_op("regularize", parameter.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < gradient.numel(); ++i) {
      const double weight = parameter.get(i);
      sum.set(i,
              gradient.get(i) * gradient_scale + penalty_.l1 * sign(weight) + penalty_.l2 * weight);
    }
  });
  inner_.step(runtime, parameter, sum, state, 1.0, step);
}

void validate(const EarlyStopping& rules) {
  require_count("patience", rules.patience);
  require_count("validation_patience", rules.validation_patience);
  require_finite("minimum_improvement", rules.minimum_improvement);
  require_finite("minimum_change", rules.minimum_change);
}

void LossHistory::add(double loss, double minimum_improvement) {
  change = std::fabs(loss - previous);
  previous = loss;
  // Infinite or NaN is no improvement, and nothing to be better than.
  if (std::isfinite(loss) && (!std::isfinite(best) || loss < best - minimum_improvement)) {
    best = loss;
    since_best = 0;
  } else {
    ++since_best;
  }
}

bool votes_to_stop(const EarlyStopping& rules, const LossHistory& training,
                   const LossHistory& validation) {
  if (rules.patience > 0 && training.since_best >= rules.patience) return true;
  if (rules.minimum_change > 0.0 && training.change < rules.minimum_change) return true;
  if (rules.validation_patience > 0 && validation.since_best >= rules.validation_patience) {
    return true;
  }
  return rules.vote && rules.vote();
}

ShardedOptimizer::ShardedOptimizer(Runtime& runtime, Communicator& world,
                                   const ParallelOptions& problem,
                                   std::unique_ptr<Optimizer> wrapped, const ParallelChoice& choice,
                                   const ShardingConfiguration& configuration,
                                   const OptimizationOptions& options)
    : wrapped_(checked(std::move(wrapped))),
      options_(checked(options)),
      regularized_(*wrapped_, options_.regularization),
      model_(runtime, world, problem, choice, configuration, &regularized_) {}

EffectiveOptions ShardedOptimizer::options() const {
  return {options_, wrapped_->options().learning_rate};
}

double ShardedOptimizer::step() {
  const std::int64_t updates = model_.progress().updates;
  const double loss = model_.train_step();
  // A step that was skipped for an overflow has changed nothing: its loss says nothing of progress.
  const bool is_update = model_.progress().updates > updates;
  if (is_update) training_.add(loss, options_.early_stopping.minimum_improvement);
  return loss;
}

OptimizationResult ShardedOptimizer::optimize() {
  OptimizationResult result;
  Runtime& runtime = model_.runtime();
  for (std::int64_t i = 0; i < options_.maximum_iterations; ++i) {
    result.losses.push_back(step());
    if (options_.tolerance > 0.0 &&
        runtime.decide("converged", training_.change <= options_.tolerance, false)) {
      result.reason = StopReason::converged;
      break;
    }
    if (options_.early_stopping.acts() && should_early_stop()) {
      result.reason = StopReason::early_stop;
      break;
    }
  }
  drain();
  result.parameters = model_.gather_full_parameters();
  return result;
}

void ShardedOptimizer::report_validation_loss(double loss) {
  validation_.add(loss, options_.early_stopping.minimum_improvement);
}

bool ShardedOptimizer::should_early_stop() {
  Runtime& runtime = model_.runtime();
  const EarlyStopping& rules = options_.early_stopping;
  const bool vote =
      runtime.decide("vote to stop", votes_to_stop(rules, training_, validation_), false);
  const Tensor votes = runtime.allocate(MemoryCategory::comm, {1}, DType::int64);
  runtime.write_scalar(votes, vote ? 1.0 : 0.0);
  const ReduceOp op = rules.policy == EarlyStopping::Policy::any ? ReduceOp::max : ReduceOp::min;
  model_.world()
      .all_reduce(votes, op, {.label = "early stop", .traffic = TrafficClass::scalar})
      .wait();
  return runtime.read_scalar(votes) != 0.0;
}

void ShardedOptimizer::synchronize_optimizer_state() {
  Mesh& mesh = model_.mesh();
  const ModelPart part = model_.plan().part(mesh.place());
  const auto spec = [&](int parameter) -> const ParameterSpec& {
    return spec_of(*part.model, parameter);
  };
  const bool sharded = model_.plan().options().zero_stage > 0;
  for (const WeightKind kind : {WeightKind::dense, WeightKind::expert}) {
    const ReplicaGroups groups = mesh.replicas(kind);
    broadcast_copies(sharded ? groups.replicate : groups.all, [&](int parameter) {
      return spec(parameter).is_split_over(SplitRanks::expert) == (kind == WeightKind::expert);
    });
  }
  broadcast_copies(mesh.tp_group(), [&](int parameter) { return !spec(parameter).is_split(); });
  for (const int copies : mesh.shape().tp_copies) {
    broadcast_copies(mesh.tp_copies_group(copies),
                     [&](int parameter) { return spec(parameter).split.copies == copies; });
  }
  broadcast_copies(mesh.embedding_group(), [&](int parameter) { return spec(parameter).tied; });
}

void ShardedOptimizer::broadcast_copies(Communicator* group,
                                        const std::function<bool(int)>& is_meant) {
  if (group == nullptr) return;
  std::vector<StatePiece> copies;
  model_.gradient_sync().visit(StateKind::optimizer_state, [&](const StatePiece& piece) {
    if (is_meant(piece.parameter)) copies.push_back(piece);
  });
  const MeshPlace place = model_.place();
  const ModelPart part = model_.plan().part(place);
  for (const StatePiece& copy : copies) {
    const ParameterSpec& spec = spec_of(*part.model, copy.parameter);
    const std::int64_t padding =
        num_filling(spec, part.index().of(spec), copy.first, copy.values.numel());
    OnDevice state(model_.runtime(), copy.on_host, MemoryCategory::optimizer, copy.values);
    group->broadcast(state.tensor(), 0, {.label = "optimizer state", .padding = padding}).wait();
    state.put_back();
  }
}

std::unique_ptr<ShardedOptimizer> make_sharded_optimizer(std::string_view name, Runtime& runtime,
                                                         Communicator& world,
                                                         const ParallelOptions& problem,
                                                         std::unique_ptr<Optimizer> wrapped,
                                                         const ShardingConfiguration& configuration,
                                                         const OptimizationOptions& options) {
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped),
                                            choice_of(name, world.size()), configuration, options);
}

std::unique_ptr<ShardedOptimizer> make_hybrid_sharded_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, const ShardingConfiguration& configuration,
    const OptimizationOptions& options, int pp, int tp, int dp) {
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped),
                                            hybrid_sharded(pp, tp, dp), configuration, options);
}

std::unique_ptr<ShardedOptimizer> make_local_sgd_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, const LocalTraining& local,
    const ShardingConfiguration& configuration, const OptimizationOptions& options) {
  const ParallelChoice choice{.name = "local_sgd", .dp_replicate = world.size(), .local = local};
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped), choice,
                                            configuration, options);
}

std::unique_ptr<ShardedOptimizer> make_async_sgd_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, int max_staleness,
    const ShardingConfiguration& configuration, const OptimizationOptions& options) {
  const ParallelChoice choice{.name = "async_sgd", .max_staleness = max_staleness};
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped), choice,
                                            configuration, options);
}

std::unique_ptr<ShardedOptimizer> make_gradient_compression_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, double ratio, bool quantize, bool topk,
    const ShardingConfiguration& configuration, const OptimizationOptions& options) {
  if (quantize && topk) {
    throw UsageError("E0798", "gradient compression: top-k and quantization at once",
                     "choose one of them");
  }
  ParallelChoice choice{.name = "gradient_compression"};
  if (quantize) choice.compression.compressor = &int8_blocks();
  if (topk) choice.compression = {.compressor = &largest_elements(), .ratio = ratio};
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped), choice,
                                            configuration, options);
}

}  // namespace shardsim
