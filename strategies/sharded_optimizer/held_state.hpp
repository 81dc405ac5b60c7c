#pragma once

#include <functional>
#include <vector>

#include "strategies/checkpoint/chunk.hpp"
#include "strategies/training/parallel_plan.hpp"

// What a rank holds of a model and its optimizer state, in terms of the whole model, whatever the
// layout: for checkpoints, for gathering, and to say who is responsible for what.
namespace shardsim {

/// Elements [first, first + count) of a parameter as a rank has it.
struct LocalRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// By parameter of the rank's model: what it is responsible for. What several ranks hold is shared
/// out evenly among data-parallel ranks; what all tensor-parallel ranks have is the first one's,
/// what two stages have the first one's. So the ranges of all ranks are a partition of the model.
[[nodiscard]] std::vector<LocalRange> responsible_ranges(const ParallelPlan& plan,
                                                         const MeshPlace& place);

/// A run of what a rank is responsible for, here and in the whole model.
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
/// layout.
[[nodiscard]] std::vector<HeldChunk> held_chunks(const ParallelPlan& plan, const MeshPlace& place,
                                                 const GradientSync& sync);

/// Between the chunk's memory and `bytes`. REQUIRES: as many bytes as elements; there are data.
void copy_out(const HeldChunk& chunk, std::span<std::byte> bytes);
void copy_in(std::span<const std::byte> bytes, const HeldChunk& chunk);

}  // namespace shardsim
