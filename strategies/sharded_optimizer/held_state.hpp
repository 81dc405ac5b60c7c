#pragma once

#include <functional>
#include <vector>

#include "strategies/checkpoint/chunk.hpp"
#include "strategies/training/parallel_plan.hpp"

// A rank's part of a model and its optimizer state, in terms of the whole model, for any layout:
// for checkpoints and gathers, and to say which rank is responsible for which part.
namespace shardsim {

/// Elements [first, first + count) of a parameter as a rank has it.
struct LocalRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Ranges that the rank is responsible for, by parameter of its model. Data-parallel ranks share
/// their copies out evenly. Copies on all tensor-parallel ranks belong to the first of them, copies
/// on two stages to the first stage. So the ranges of all ranks are a partition of the model.
[[nodiscard]] std::vector<LocalRange> responsible_ranges(const ParallelPlan& plan,
                                                         const MeshPlace& place);

/// A run of elements that a rank is responsible for, here and in the whole model.
struct ResponsibleRun {
  int local = 0;  ///< Parameter of the rank's model.
  std::int64_t local_first = 0;
  int whole = 0;  ///< Parameter of the whole model.
  std::int64_t whole_first = 0;
  std::int64_t count = 0;
};
/// In the order of the rank's parameters. Any rank can ask for any other's.
void for_each_responsible_run(const ParallelPlan& plan, const MeshPlace& place,
                              const std::function<void(const ResponsibleRun&)>& visit);

/// Part of a whole tensor, and where its elements are in this rank's memory, in the same order.
struct HeldChunk {
  TensorInfo tensor;  ///< "parameter/NAME", or the state's name: "exp_avg/NAME", "master/NAME".
  ElementRuns elements;
  std::vector<Tensor> values;
  bool main = false;  ///< Within the responsible range; else a copy of what others answer for.
};

/// Weights and optimizer state that a rank holds, all of it, in an order that depends on the
/// layout. Then what `state` has: scales from the past ("amax_history/NAME.OPERAND",
/// "amax_multiplier/...") and biases of the choice of experts ("router_bias/NAME"). The first rank
/// that has them answers.
[[nodiscard]] std::vector<HeldChunk> held_chunks(const ParallelPlan& plan, const MeshPlace& place,
                                                 const GradientSync& sync,
                                                 const ModelParallel& state);

}  // namespace shardsim
