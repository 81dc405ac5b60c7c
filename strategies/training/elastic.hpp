#pragma once

#include "strategies/training/parallel_plan.hpp"

// Data-parallel ranks that leave and join between steps, as TorchElastic has it after a failure or
// a resize, here declared by ParallelOptions::members. In step t the first members[t] ranks take
// part. The global batch stays what it is: member d of n has its microbatches d, d + n, ..., so
// that shares may be uneven. The loss is a mean over the targets of all, so any membership gives
// the model of one device (law L2).
//
// When membership changes, all ranks meet once to form the new group. Absent ranks do nothing else:
// they hold no weights. Joining ranks get weights, optimizer state and progress from the first
// member, which is always there. Broadcasts in the new group bring them, with labels of their own
// ("join parameters", "join optimizer state", "join progress").
namespace shardsim {

/// Members in a step.
[[nodiscard]] int members_at(const ParallelOptions& options, std::int64_t step);

/// Trains one rank through all steps. `everyone`: the mesh of all ranks, members or not; every one
/// of them must call it.
void train_elastic(const ParallelPlan& plan, Runtime& runtime, Mesh& everyone,
                   TrainingObserver& observer);

}  // namespace shardsim
