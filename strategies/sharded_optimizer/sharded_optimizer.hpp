#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/save.hpp"
#include "strategies/sharded_optimizer/regularized_optimizer.hpp"
#include "strategies/sharded_optimizer/sharded_model.hpp"

// The contract of the specification: any elementwise optimizer, run on a model that is spread over
// ranks. SPMD like ShardedModel: all ranks make one and call the same functions in the same order.
// Which strategy it is, is a row of parallel_choice.cpp. docs/guide/sharded-optimizers.md names the
// test of each statement.
namespace shardsim {

/// When an optimization ends before its limit of iterations.
struct EarlyStopping {
  /// One rank's vote is enough, or all are needed. All ranks then get the same answer.
  enum class Policy : std::uint8_t { any, all };
  Policy policy = Policy::any;

  // A rank votes for the end if one of these holds. A limit of 0 or null never holds.

  /// No training loss was below the best before it by more than `minimum_improvement`, for so many
  /// iterations.
  std::int64_t patience = 0;
  double minimum_improvement = 0.0;
  /// The loss changed by less than this from one iteration to the next.
  double minimum_change = 0.0;
  /// The validation losses this rank reported were worse than its best one, so many times in a row.
  std::int64_t validation_patience = 0;
  /// The rank's own opinion.
  std::function<bool()> vote;

  [[nodiscard]] bool acts() const {
    return patience > 0 || minimum_change > 0.0 || validation_patience > 0 || vote != nullptr;
  }
};

/// Throws UsageError for numbers that are negative or not finite.
void validate(const EarlyStopping& rules);

/// A sequence of losses, and whether it still falls.
struct LossHistory {
  double previous = std::numeric_limits<double>::infinity();
  double change = std::numeric_limits<double>::infinity();  ///< |last - previous|.
  double best = std::numeric_limits<double>::infinity();
  std::int64_t since_best = 0;

  void add(double loss, double minimum_improvement);
};

/// This rank's vote. `training` is the same on all ranks, `validation` is its own.
[[nodiscard]] bool votes_to_stop(const EarlyStopping& rules, const LossHistory& training,
                                 const LossHistory& validation);

/// Settings of `optimize` for the wrapped optimizer. Numbers are finite and 0 or more.
struct OptimizationOptions {
  std::int64_t maximum_iterations = 100;  ///< For one call.
  /// Converged when the loss changes by no more than this between iterations; 0: never.
  double tolerance = 0.0;
  Regularization regularization;
  EarlyStopping early_stopping;
};
/// The same, and the wrapped optimizer's own rate.
struct EffectiveOptions : OptimizationOptions {
  double learning_rate = 0.0;
};

enum class StopReason : std::uint8_t { converged, iteration_limit, early_stop };

struct OptimizationResult {
  StopReason reason = StopReason::iteration_limit;
  std::vector<double> losses;      ///< By iteration, before its update. 0 without data.
  std::vector<Tensor> parameters;  ///< Whole, in the order of the wrapped model's, on every rank.

  [[nodiscard]] std::int64_t iterations() const { return static_cast<std::int64_t>(losses.size()); }
};

/// State that a rank needs to continue: its weights, master weights and optimizer state, and the
/// state that all ranks share. A value; nothing refers to the optimizer it came from.
struct SerializedState {
  struct Part {
    TensorInfo tensor;
    ElementRuns elements;
    std::vector<std::byte> bytes;
    bool main = false;  ///< Answered for by this rank; else a copy.
  };
  std::vector<Part> parts;
  /// step, updates, seed, loss scale, optimizer with its options, and the history of losses.
  Scalars scalars;
};

/// Policy for a state made with other options (learning rate, betas, regularization, ...) than
/// those of the optimizer that continues from it.
enum class SavedOptions : std::uint8_t {
  must_agree,  ///< The state is refused, the first option that differs named with both values.
  keep_own,    ///< Continues with its own; those of the state, if any, are ignored.
};

class ShardedOptimizer {
 public:
  /// Throws UsageError as ShardedModel does, where `wrapped` is null, where it is no elementwise
  /// rule on gradients, and for options out of range.
  ShardedOptimizer(Runtime& runtime, Communicator& world, const ParallelOptions& problem,
                   std::unique_ptr<Optimizer> wrapped, const ParallelChoice& choice,
                   const ShardingConfiguration& configuration = {},
                   const OptimizationOptions& options = {});

  [[nodiscard]] int rank() const { return model_.rank(); }
  [[nodiscard]] int world_size() const { return model_.world_size(); }
  [[nodiscard]] const ShardingConfiguration& sharding_configuration() const {
    return model_.sharding_configuration();
  }
  [[nodiscard]] const Optimizer& wrapped_optimizer() const { return *wrapped_; }
  [[nodiscard]] EffectiveOptions options() const;
  [[nodiscard]] ShardedModel& model() { return model_; }
  [[nodiscard]] const ShardedModel& model() const { return model_; }

  /// One iteration; returns its loss on every rank. One that loss scaling skips counts as an
  /// iteration, but not for convergence and early stopping.
  double step();
  /// Iterates until converged, the limit, or an early stop. Continues from where the optimizer is,
  /// with all its state. A plan, which has no values to decide on, runs to the limit.
  [[nodiscard]] OptimizationResult optimize();
  /// Waits for gradients that are applied late, which stay to be applied. After the last step() of
  /// such an optimizer. Collective.
  void drain() { model_.drain(); }

  /// This rank's own; it may be different from rank to rank.
  void report_validation_loss(double loss);
  /// The ranks' votes by the policy. Collective; the same answer on every rank.
  [[nodiscard]] bool should_early_stop();

  /// Makes every copy of optimizer state that several ranks hold that of its owner, the first of
  /// them: over data-parallel replicas, tensor-parallel ranks (what is not cut) and tied stages.
  /// Collective. Changes no value unless a copy has diverged, and sends nothing where state has one
  /// holder.
  void synchronize_optimizer_state();

  /// Empty where there are no data.
  [[nodiscard]] SerializedState serialize() const;
  /// Continues from states of any layout, which together must hold what this rank holds: its own of
  /// before, or those of all ranks of another world. All or nothing, and the same error
  /// (CheckpointError) on every rank. Collective.
  void deserialize(std::span<const SerializedState> states,
                   SavedOptions options = SavedOptions::must_agree);
  void deserialize(const SerializedState& own, SavedOptions options = SavedOptions::must_agree) {
    deserialize({&own, 1}, options);
  }

  /// serialize, and a checkpoint of all ranks in `directory` under its step. Collective; throws
  /// CheckpointError, the same on every rank. A plan saves nothing.
  void save_model(FileSystem& files, const std::string& directory);
  /// Continues from a checkpoint of any layout. Throws as `deserialize`.
  void load_model(FileSystem& files, const CheckpointPlace& place,
                  SavedOptions options = SavedOptions::must_agree);

 private:
  [[nodiscard]] Scalars scalars() const;
  void restore(const Scalars& scalars);
  void check(const Scalars& scalars, SavedOptions options) const;
  void broadcast_copies(Communicator* group, const std::function<bool(int)>& is_meant);

  std::unique_ptr<Optimizer> wrapped_;
  OptimizationOptions options_;
  RegularizedOptimizer regularized_;
  ShardedModel model_;
  LossHistory training_;
  LossHistory validation_;
};

/// By a name of named_choices().
[[nodiscard]] std::unique_ptr<ShardedOptimizer> make_sharded_optimizer(
    std::string_view name, Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, const ShardingConfiguration& configuration = {},
    const OptimizationOptions& options = {});

/// pp x tp x dp; UsageError unless they are the world.
[[nodiscard]] std::unique_ptr<ShardedOptimizer> make_hybrid_sharded_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, const ShardingConfiguration& configuration = {},
    const OptimizationOptions& options = {}, int pp = 1, int tp = 1, int dp = -1);

}  // namespace shardsim
