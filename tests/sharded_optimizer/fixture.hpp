#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/sharded_optimizer/sharded_optimizer.hpp"

#include "tests/strategies/training_case.hpp"

// Sharded optimizers on virtual ranks, and what they hold in terms of the whole model, which can be
// compared whatever the layout.
namespace shardsim::test {

/// Elements by name of the tensor ("parameter/...", "exp_avg/..."): of the whole model.
using WholeState = std::map<std::string, std::vector<double>>;

struct Setup {
  std::string model = "mlp";
  ParallelChoice choice{.name = "ddp"};
  int ranks = 1;
  std::string optimizer = "adam";
  OptimizerOptions optimizer_options{.learning_rate = 0.01, .weight_decay = 0.1};
  TrainingPlan training{.micro_batch_size = 1, .num_microbatches = 2};
  SyncPlan sync{
      .weight_dtype = DType::fp64, .master_dtype = DType::fp64, .gradient_dtype = DType::fp64};
  std::string schedule = "1f1b";
  int num_chunks = 1;
  std::int64_t bucket_bytes = 400;
  ShardingConfiguration configuration{.minimum_parameter_group_size = 0};
  OptimizationOptions options;
  FiberOptions world;
  std::function<void(ModelOptions&)> change_model;  ///< May be null.
};

/// `name`: of named_choices().
[[nodiscard]] Setup setup_of(std::string_view name, int ranks, const std::string& model = "mlp");
/// A dense block and then blocks of experts; the same global batch of 8 samples in any layout.
/// `change`: what else the model is; may be null.
[[nodiscard]] Setup with_experts(const ParallelChoice& choice, int ranks,
                                 const std::function<void(ModelOptions&)>& change);
/// One device by `make`, and then layouts that cut experts and their surroundings in every way.
[[nodiscard]] std::vector<Setup> in_expert_layouts(
    const std::function<Setup(const ParallelChoice&, int ranks)>& make);
/// Whole numbers, SGD, divisors and rates that are powers of two: every value is exact.
[[nodiscard]] Setup exact(Setup setup);
/// Weights in bf16; gradients, optimizer state and master weights in fp32.
[[nodiscard]] Setup with_masters(Setup setup);
[[nodiscard]] bool has_masters(const Setup& setup);
/// Each setup, and each with weights narrower than those the optimizer updates.
[[nodiscard]] std::vector<Setup> in_both_precisions(std::vector<Setup> setups);
/// One of each strategy, on few ranks, with sizes that ranks do not divide, in both precisions.
[[nodiscard]] std::vector<Setup> all_strategies();
[[nodiscard]] inline bool is_master(const std::string& name) {
  return name.rfind("master/", 0) == 0;
}
[[nodiscard]] ParallelOptions problem_of(const Setup& setup);
[[nodiscard]] std::unique_ptr<ShardedOptimizer> make(const Setup& setup, Runtime& runtime,
                                                     Communicator& world);

using OptimizerBody = std::function<void(ShardedOptimizer&)>;
/// Runs `body` on every rank, each with its optimizer.
void on_ranks(const Setup& setup, const OptimizerBody& body);
/// The same in a world of the caller's.
void on_ranks(FiberWorld& world, const Setup& setup, const OptimizerBody& body);
/// The world that on_ranks would make.
[[nodiscard]] FiberOptions world_of(const Setup& setup);

/// The state of each rank after so many steps of the setup.
[[nodiscard]] std::vector<SerializedState> states_after(const Setup& setup, int steps);

/// Visits the elements of a part: where each lies in the whole tensor, and its value.
void for_each_element(const SerializedState::Part& part,
                      const std::function<void(std::size_t, double)>& visit);
/// Adds what a rank answers for. Fails the test where an element is there already.
void add_to(WholeState& whole, const SerializedState& state);
/// Gradients by parameter, "gradient/...": add_to for what a rank's reduced gradients are.
void add_gradients_to(WholeState& whole, const ShardedOptimizer& optimizer);
/// After so many steps of the setup.
[[nodiscard]] WholeState train(const Setup& setup, int steps);
/// The same by one device that knows nothing of ranks, buckets or shards.
[[nodiscard]] WholeState train_alone(const Setup& setup, int steps);
/// The mean loss of each of so many global batches.
[[nodiscard]] std::vector<double> losses_alone(const Setup& setup, int steps);
/// Where the loss changes least between two of the first iterations of optimize, counted from 1.
/// Fails the test where ranks know other losses than rank 0.
struct SmallestChange {
  double change = 0.0;
  std::int64_t iteration = 0;
};
[[nodiscard]] SmallestChange smallest_change(const Setup& setup, std::int64_t iterations);
/// Gradients of the global batch, of step `step` from 0.
[[nodiscard]] WholeState gradients_alone(const Setup& setup, int step);

/// max |a - b| / max |b| of the tensor, at least 1e-6 of the largest of its kind; infinite where
/// tensors or elements are missing.
[[nodiscard]] double worst_error(const WholeState& actual, const WholeState& reference);

/// The code of the Error that `load` throws, "none". Fails the test if ranks see different ones, or
/// if a refused load has changed anything.
[[nodiscard]] std::string load_refusal(const Setup& setup, const OptimizerBody& load);

/// The bytes of everything a rank holds, copies included.
[[nodiscard]] std::vector<std::byte> bytes_of(const SerializedState& state);

/// The code of the Error that `call` throws; "none".
template <class Call>
[[nodiscard]] std::string code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return "none";
}

}  // namespace shardsim::test
