#pragma once

#include <utility>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/optimizer/optimizer.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "scenarios/mesh_shape.hpp"
#include "scenarios/scenario.hpp"
#include "sim/app/reference.hpp"

// From the words of a scenario to the objects of the layers below. Nothing is decided here: each
// function copies fields and converts units.
namespace shardsim {

[[nodiscard]] DType dtype_of(Precision precision);
[[nodiscard]] Cluster cluster_of(const SystemSpec& system);
[[nodiscard]] ModelOptions model_options_of(const Scenario& scenario);
[[nodiscard]] std::unique_ptr<Optimizer> optimizer_of(const TrainingSpec& training);
[[nodiscard]] TrainingPlan training_plan_of(const Scenario& scenario);
[[nodiscard]] FiberOptions fiber_options_of(const Scenario& scenario);

[[nodiscard]] ParallelOptions parallel_options_of(const Scenario& scenario);

/// The same samples to one rank that trains on all of them.
[[nodiscard]] GlobalBatch global_batch_of(const ParallelOptions& options);

/// What the ranks of a run share, and the optimizer it refers to.
struct SharedPlan {
  explicit SharedPlan(const Scenario& scenario)
      : SharedPlan(scenario.training, parallel_options_of(scenario)) {}
  SharedPlan(const TrainingSpec& training, ParallelOptions options)
      : optimizer(optimizer_of(training)), parallel(std::move(options), *optimizer) {}

  std::unique_ptr<Optimizer> optimizer;
  ParallelPlan parallel;
};

}  // namespace shardsim
