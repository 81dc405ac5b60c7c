#pragma once

#include "backends/fiber/fiber_world.hpp"

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/mesh.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/optimizer/optimizer.hpp"
#include "strategies/training/train.hpp"

#include "scenarios/scenario.hpp"

// From the words of a scenario to the objects of the layers below. Nothing is decided here: each
// function copies fields and converts units.
namespace shardsim {

[[nodiscard]] DType dtype_of(Precision precision);
[[nodiscard]] Cluster cluster_of(const SystemSpec& system);
[[nodiscard]] ModelOptions model_options_of(const Scenario& scenario);
[[nodiscard]] std::unique_ptr<Optimizer> optimizer_of(const TrainingSpec& training);
[[nodiscard]] MeshShape mesh_shape_of(const ParallelismSpec& parallelism);
[[nodiscard]] TrainingPlan training_plan_of(const Scenario& scenario);
[[nodiscard]] FiberOptions fiber_options_of(const Scenario& scenario);

/// The objects a run's ranks share, with the plan that refers to them.
struct SharedPlan {
  explicit SharedPlan(const Scenario& scenario);
  SharedPlan(const SharedPlan&) = delete;
  SharedPlan& operator=(const SharedPlan&) = delete;

  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  FlatLayout layout;
  SyncPlan sync;
};

}  // namespace shardsim
