#pragma once

#include <memory>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "scenarios/scenario.hpp"

// Makes objects from the fields of a scenario, and counts that. Nothing is decided here: fields are
// copied and units converted. Only Experiment calls these.
namespace shardsim {

/// A cluster without faults. Throws UsageError E0405 or E0406 if NCCL's model does not know it.
[[nodiscard]] Cluster cluster_of(const SystemSpec& system);

/// `cluster` with the scenario's faults, by ranks of `mesh`, and how its ranks run.
[[nodiscard]] FiberOptions fiber_options_of(const Scenario& scenario, const Cluster& cluster,
                                            const MeshShape& mesh);

/// `software`: the scenario's; null: none. It adds memory to the state that the layers keep.
[[nodiscard]] ParallelOptions parallel_options_of(const Scenario& scenario,
                                                  const Software* software);

[[nodiscard]] std::unique_ptr<const Optimizer> optimizer_of(const TrainingSpec& training);

/// Attention drops where hidden layers do, as in Megatron-LM, whose two rates have one default.
[[nodiscard]] inline bool attention_drops(const TrainingSpec& training) {
  return training.hidden_dropout > 0.0;
}

/// How often this thread has derived each part of an Experiment. Nothing in the product reads it:
/// tests compare it with the number of runs.
struct Derivations {
  int experiments = 0;
  int clusters = 0;  ///< The loader makes one of its own before, to check what NCCL knows.
  int faults = 0;
  int options = 0;  ///< Model, mesh, training and synchronization.
  int optimizers = 0;
  int plans = 0;
  int alike = 0;
  int foldings = 0;
  int assumptions = 0;

  [[nodiscard]] friend bool operator==(const Derivations&, const Derivations&) = default;
};

[[nodiscard]] inline Derivations& derivations() {
  static thread_local Derivations counts;
  return counts;
}

}  // namespace shardsim
