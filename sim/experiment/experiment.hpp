#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"
#include "backends/fold.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// The objects of the layers below that a scenario describes. Each of them is derived once, here:
// other code asks the Experiment, and makes no objects of a scenario's fields.
namespace shardsim {

/// Changes a pipeline's schedule (compute actions) before it is validated.
using ScheduleEdit = std::function<void(PipelineSchedule& schedule)>;

class Experiment;

// --- Ranks that do the same --------------------------------------------------------------------
// docs/decisions/0035-folding.md; only Experiment calls alike_ranks_of and folding_of.

/// Ranks of a stage that have equal parts of everything.
struct AlikeRanks {
  /// By stage, for each dp_shard, the first one with equal shards of the stage's weights.
  std::vector<std::vector<int>> shards;
  /// By stage, for each tp, the first one with equal parts of each of the stage's matrices, that
  /// sends to the same ranks.
  std::vector<std::vector<int>> tensor;
  /// By stage, for each shard of experts' weights, the first that is equal; empty unless experts
  /// are apart.
  std::vector<std::vector<int>> experts;

  [[nodiscard]] int first_shard(const MeshPlace& place) const {
    return shards[static_cast<std::size_t>(place.pp)][static_cast<std::size_t>(place.dp_shard)];
  }
  [[nodiscard]] int first_tensor(const MeshPlace& place) const {
    return tensor[static_cast<std::size_t>(place.pp)][static_cast<std::size_t>(place.tp)];
  }
  [[nodiscard]] int first_expert(const MeshPlace& place, const MeshShape& mesh) const {
    if (experts.empty()) return 0;
    return experts[static_cast<std::size_t>(place.pp)]
                  [static_cast<std::size_t>(mesh.shard_of(place, WeightKind::expert))];
  }
  /// For each dp_shard, the first one whose shards of all stages are equal.
  [[nodiscard]] std::vector<int> first_shards() const;
  /// All tensor-parallel ranks have equal parts.
  [[nodiscard]] bool all_tensor() const;
};
/// Ranks with padded parts send other data.
[[nodiscard]] AlikeRanks alike_ranks_of(const ParallelPlan& plan);

/// Either how to fold, or why not, as the end of a sentence.
struct Folding {
  std::optional<Fold> fold;
  std::string obstacle;
};
[[nodiscard]] Folding folding_of(const Experiment& experiment);

// --- Experiments -------------------------------------------------------------------------------

/// A scenario with its machine, its training and their consequences. It never changes. Expensive
/// parts are derived on first use, so an Experiment belongs to one thread. Deriving reads no marked
/// number (sim/kernel/tracked.hpp): marks travel with the values, to the run that decides by them.
class Experiment {
 public:
  /// As compile().
  explicit Experiment(Scenario scenario, const ScheduleEdit& edit = {});
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  /// For plain values and for printing: its text, names, warnings and files.
  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  /// The machine in order, without what this training makes of it.
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  /// The same with its faults and this training's kernels, and how ranks run on it.
  [[nodiscard]] const FiberOptions& world() const { return world_; }
  /// Null: the machine has none.
  [[nodiscard]] const MachineFaults* faults() const { return world_.cluster.faults.get(); }
  /// Null: none is named.
  [[nodiscard]] const Software* software() const { return cluster_.device.software; }
  /// Model, mesh, training and synchronization, before a plan has put them together.
  [[nodiscard]] const ParallelOptions& options() const { return options_; }
  /// The axes; whether stages lie in a V is for the plan's own mesh to say.
  [[nodiscard]] const MeshShape& mesh() const { return options_.mesh; }
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  /// Bytes of each weight: its optimizer state, and its master copy where that is of another type.
  [[nodiscard]] std::int64_t owned_bytes(bool matrices = false) const;

  /// The plan that the ranks share. Throws as ParallelPlan does: UsageError for what does not fit
  /// together, CommunicationError for a schedule that cannot run.
  [[nodiscard]] const ParallelPlan& plan() const;
  /// The ranks of a stage that have equal shards. Throws as plan(). REQUIRES: no experts apart.
  [[nodiscard]] const AlikeRanks& alike() const;
  /// The ranks that do the same. Throws as plan().
  [[nodiscard]] const Folding& folding() const;
  /// The assumptions behind the numbers, without a record of decisions (assumptions.hpp).
  [[nodiscard]] const std::vector<Assumption>& assumptions() const;

 private:
  Scenario scenario_;
  Cluster cluster_;
  FiberOptions world_;
  ParallelOptions options_;
  std::unique_ptr<const Optimizer> optimizer_;
  mutable std::optional<ParallelPlan> plan_;
  mutable std::optional<AlikeRanks> alike_;
  mutable std::optional<Folding> folding_;
  mutable std::optional<std::vector<Assumption>> assumptions_;
};

/// `edit`: applied to the pipeline's schedule; empty: none. Throws UsageError where NCCL's cost
/// model does not know the machine, which the loader has refused before.
[[nodiscard]] Experiment compile(Scenario scenario, const ScheduleEdit& edit = {});

}  // namespace shardsim
