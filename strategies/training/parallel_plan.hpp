#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategies/gradient_sync/expert_sync.hpp"
#include "strategies/gradient_sync/flat_layout.hpp"
#include "strategies/gradient_sync/whole_state.hpp"
#include "strategies/mesh.hpp"
#include "strategies/model/activation_offload.hpp"
#include "strategies/model/delayed_scales.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/parameter.hpp"
#include "strategies/model/router_bias.hpp"
#include "strategies/pipeline/schedule_row.hpp"
#include "strategies/pipeline/stage_model.hpp"
#include "strategies/pipeline/stage_split.hpp"
#include "strategies/training/train.hpp"

// One choice per axis, composed: what a strategy is, before it runs.
namespace shardsim {

struct ParallelOptions {
  /// Whole: its tensor_parallel, context_parallel and expert_parallel are set from the mesh.
  ModelOptions model;
  MeshShape mesh;  ///< Whether it is for V placement is set from the schedule.
  int zero_stage = 0;
  std::int64_t bucket_bytes = 1;
  std::int64_t first_bucket_bytes = 1;
  std::int64_t minimum_group_numel = 0;  ///< Buckets and units grow until they have as many.
  /// For the pipeline; with one stage every microbatch runs alone.
  std::string schedule = std::string(default_schedule().name);
  int num_chunks = 1;      ///< Model chunks per pipeline rank.
  StageSplit stage_split;  ///< The layers of each chunk.
  /// Instead of the one named `schedule`, of the shape shape_of(options); any other is refused.
  /// With sends and receives in it, it runs with these, otherwise with those of lower.hpp.
  std::optional<PipelineSchedule> own_schedule;
  OffloadOptions offload;                ///< Activations in host memory.
  bool delays_weight_gradients = false;  ///< See StagePlan.
  TrainingPlan training;
  SyncPlan sync;  ///< Its pointers and seed are filled in; there, `model` is the whole one.
  /// Elastic: the data-parallel ranks that take part in each step, the first so many; the last
  /// number holds for all further steps. Empty: always all. See elastic.cpp.
  std::vector<int> members;
};

/// Throws UsageError for values out of range: sizes of the mesh and of buckets, the training and
/// the sync. ParallelPlan refuses values that do not fit together.
void validate(const ParallelOptions& options);

/// Shape of the options' pipeline.
[[nodiscard]] PipelineShape shape_of(const ParallelOptions& options);

/// A rank's ends of the groups in which it computes layers, made from its mesh: one object per axis
/// that the mesh has. Every rank of the mesh must make its own at the same point of the program.
class RankParallel {
 public:
  /// `options`: of the whole model. `mesh` must outlive it.
  RankParallel(const ModelOptions& options, Mesh& mesh);
  RankParallel(RankParallel&&) noexcept;
  ~RankParallel();

  [[nodiscard]] ModelParallel ends() const;

 private:
  std::unique_ptr<TensorParallel> tensor_;
  std::unique_ptr<ContextParallel> context_;
  std::unique_ptr<ExpertParallel> expert_;
  std::unique_ptr<RouterBiases> router_biases_;
  std::unique_ptr<DelayedScales> delayed_scales_;
};

/// The plan that the ranks of a run share; it must outlive them. Ranks of a pipeline stage have the
/// same model, layout and schedule; tensor-parallel ranks the same shapes.
class ParallelPlan {
 public:
  /// Throws UsageError as validate(options) and for values that do not fit together,
  /// CommunicationError for a schedule that cannot run.
  ParallelPlan(ParallelOptions options, const Optimizer& optimizer);
  ParallelPlan(const ParallelPlan&) = delete;
  ParallelPlan& operator=(const ParallelPlan&) = delete;

  [[nodiscard]] const ParallelOptions& options() const { return options_; }
  /// The model as one device has it.
  [[nodiscard]] const Model& whole() const { return *whole_; }
  [[nodiscard]] const PipelineSchedule& schedule() const { return schedule_; }
  /// Whether the pipeline rank has the last stage, and so knows the loss.
  [[nodiscard]] bool has_loss(int pp) const {
    return schedule_.rank_of(schedule_.num_stages() - 1) == pp;
  }
  /// Layout of dense weights, or of experts if mesh.experts_apart(): else those are dense, too.
  [[nodiscard]] const FlatLayout& layout(int stage, WeightKind kind = WeightKind::dense) const {
    return kind == WeightKind::dense ? of(stage).layout : of(stage).experts->layout;
  }
  /// The place of a rank's state in the whole model.
  [[nodiscard]] ModelPart part(const MeshPlace& place) const;

  /// Microbatches of a step, of all data-parallel ranks.
  [[nodiscard]] std::int64_t num_runs() const {
    return options_.training.num_microbatches * options_.mesh.data_size();
  }
  /// Schedule of a rank with so many microbatches in a step, and no stages.
  [[nodiscard]] PipelineSchedule schedule_of(std::int64_t num_microbatches) const;

  /// Trains one rank, whose mesh must be of options().mesh.
  void train_rank(Runtime& runtime, Mesh& mesh, TrainingObserver& observer) const;
  /// The parts of train_rank, for callers that act between them.
  [[nodiscard]] std::unique_ptr<GradientSync> make_sync(Runtime& runtime, Mesh& mesh) const;
  [[nodiscard]] RankParallel make_parallel(Mesh& mesh) const;
  /// The loop of train_rank step by step; all arguments must outlive it.
  [[nodiscard]] std::unique_ptr<TrainingSession> make_session(Runtime& runtime, Mesh& mesh,
                                                              GradientSync& sync,
                                                              const ModelParallel& parallel,
                                                              TrainingObserver& observer) const;
  /// The plan that the ranks of a stage share.
  [[nodiscard]] const StagePlan& stage(int stage) const { return of(stage).plan; }
  /// Plan of a stage's weights, for a caller's own synchronization; not with experts apart.
  [[nodiscard]] const SyncPlan& sync_plan(int stage) const { return of(stage).sync; }
  /// `model`: what this rank computes with in place of its stage's; null: that.
  void train_rank(Runtime& runtime, Mesh& mesh, GradientSync& sync, TrainingObserver& observer,
                  const Model* model = nullptr) const;

 private:
  // Weights of experts, where other ranks keep copies of them than of the weights around them.
  struct Experts {
    UnitsOfKind dense_units;
    UnitsOfKind expert_units;
    FlatLayout layout;
    SyncPlan sync;
  };
  struct Stage {
    std::unique_ptr<StageModel> own;        // Null with one stage: the model itself.
    std::unique_ptr<GroupedUnits> grouped;  // Around that; null unless units must grow.
    FlatLayout layout;
    SyncPlan sync;
    StagePlan plan;
    std::unique_ptr<Experts> experts;  // Null unless experts are apart.
  };
  [[nodiscard]] const Stage& of(int stage) const { return *stages_[to_size(stage)]; }
  // Compression, late gradients, replicas that train apart and changing membership exclude each
  // other. Throws UsageError, with the reason, for two of them, or one with what it cannot do.
  static void require_fitting_choice(const ParallelOptions& options);
  // Trains one rank of an elastic training through all steps. `everyone`: the mesh of all ranks,
  // members or not; every one of them must call it. See elastic.cpp.
  void train_elastic(Runtime& runtime, Mesh& everyone, TrainingObserver& observer) const;
  void add_stage(int rank, const std::vector<ModuleRange>& ranges);
  void split_off_experts(Stage& stage, const Model& uncut) const;

  ParallelOptions options_;
  std::unique_ptr<Model> whole_;
  std::unique_ptr<Model> part_;  // One rank's model if ranks share layers; null if it is whole.
  PipelineSchedule schedule_;    // With communication in it.
  std::vector<std::unique_ptr<Stage>> stages_;
};

/// All properties of shard `shard` of a stage's weights of one kind that its owner's program
/// depends on: ranks with equal signatures make the same calls, of the same sizes. Chunks are cut
/// equally, with padding. A shard's content decides the rest: the number of elements that are
/// summed over tensor-parallel ranks, the pieces of tied weights, and the padding if it is reduced
/// over replicas. Add here whatever a new call takes from a shard's content. Empty if nothing is
/// sharded. REQUIRES: 0 <= shard < mesh.num_shards(kind); experts apart for those of experts.
[[nodiscard]] std::vector<std::int64_t> shard_signature(const ParallelPlan& plan, int stage,
                                                        int shard, WeightKind kind);

/// By shard, whether it has anything that its signature tells of: all that do not have one
/// signature. It takes as long as the stage is deep, however many shards there are. REQUIRES: as
/// shard_signature.
[[nodiscard]] std::vector<bool> shards_with_marks(const ParallelPlan& plan, int stage,
                                                  WeightKind kind);

/// Members in a step of an elastic training.
[[nodiscard]] int members_at(const ParallelOptions& options, std::int64_t step);

}  // namespace shardsim
