#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "strategies/sharded_optimizer/held_state.hpp"
#include "strategies/sharded_optimizer/parallel_choice.hpp"

// One rank's end of a model that is spread over ranks, and trained by the loop of
// strategies/training. SPMD: every rank of the world makes one, at the same point of the program
// and with the same arguments, and all call the same functions in the same order.
namespace shardsim {

/// How a sharded model is kept in step, apart from which axes it is cut along.
struct ShardingConfiguration {
  /// For the plain SGD with which a ShardedModel trains if no optimizer wraps it. A wrapped
  /// optimizer has a rate of its own.
  double learning_rate = 0.01;
  /// Gradients are reduced while backward runs and are the global ones when it ends. Else they stay
  /// local, and whole, until synchronize_gradients is called.
  bool auto_sync_gradients = true;
  /// Elements below which a group of parameters that is reduced and gathered together is not
  /// closed: small parameters share a bucket (DDP, ZeRO-1, -2) or a unit (ZeRO-3, FSDP) until it
  /// has as many. A tied weight, and what lies in different model chunks, stays apart all the same.
  std::int64_t minimum_parameter_group_size = 1024;
  /// Ranks send 8 bits of each gradient, and what is lost later (int8_blocks of compressors.hpp).
  /// ZeRO stage 0, data parallelism alone; saving is refused then.
  bool enable_gradient_compression = false;
  /// Optimizer state and master weights, the owned part of reduced gradients, and the owned part of
  /// the weights live in host memory, and cross the host link (Device::host_bytes_per_s) a chunk at
  /// a time when they are worked on. Gradients: ZeRO stages 2 and 3. Parameters: stage 3.
  bool cpu_offload_optimizer = false;
  bool cpu_offload_gradients = false;
  bool cpu_offload_parameters = false;

  friend bool operator==(const ShardingConfiguration&, const ShardingConfiguration&) = default;
};

// The presets of the specification.
[[nodiscard]] ShardingConfiguration high_bandwidth_configuration();  ///< Small groups, 512.
[[nodiscard]] ShardingConfiguration low_bandwidth_configuration();   ///< 4096, compressed.
[[nodiscard]] ShardingConfiguration zero_offload_configuration();    ///< Optimizer and gradients.
[[nodiscard]] ShardingConfiguration zero_offload_full_configuration();  ///< Parameters, too.

/// Throws UsageError on what is out of range, and on what `zero_stage` cannot do.
void validate(const ShardingConfiguration& configuration, int zero_stage);

/// A run of elements of a parameter of the whole model, in this rank's memory.
struct ParameterShard {
  int parameter = 0;       ///< Index in wrapped_model().parameters().
  std::int64_t first = 0;  ///< Index in the flattened whole parameter.
  Tensor values;
};

class ShardedModel {
 public:
  /// `problem`: model, batches, precision, pipeline schedule; its mesh and zero_stage come from
  /// `choice`. `optimizer`: null for plain SGD at configuration.learning_rate. Runtime, world and
  /// optimizer must outlive the model. Throws UsageError for what does not fit together, and what
  /// the configuration asks for and the choice cannot do.
  ShardedModel(Runtime& runtime, Communicator& world, const ParallelOptions& problem,
               const ParallelChoice& choice, const ShardingConfiguration& configuration,
               const Optimizer* optimizer = nullptr);
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;
  ~ShardedModel();

  [[nodiscard]] int rank() const { return world_.rank(); }
  [[nodiscard]] int world_size() const { return world_.size(); }
  [[nodiscard]] const ShardingConfiguration& sharding_configuration() const {
    return configuration_;
  }
  /// As one device has it.
  [[nodiscard]] const Model& wrapped_model() const { return plan_.whole(); }

  /// Shards that this rank is responsible for: over all ranks, each element of each parameter once.
  [[nodiscard]] std::vector<ParameterShard> local_parameter_shard() const;
  /// All parameters, whole, on every rank: one all_gather over the world. In memory until dropped.
  [[nodiscard]] std::vector<Tensor> gather_full_parameters();

  /// Forward and backward of the next global batch. Then gradients are those of the global batch,
  /// or with auto_sync_gradients off this rank's own.
  void compute_gradients();
  /// Makes them those of the global batch. UsageError if there are none, or they are already.
  void synchronize_gradients();
  /// The optimizer's step. UsageError unless gradients are synchronized.
  void apply_gradients();
  /// All three. Returns the mean loss of the step's batch before the update, on every rank; 0
  /// without data.
  double train_step();
  /// Waits for gradients that are applied late. Changes nothing; training may continue. Collective.
  void drain() { session_->drain(); }

  /// Steps that are done; of them progress().updates changed the weights.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] const TrainingProgress& progress() const { return session_->progress(); }
  /// Samples of one step.
  [[nodiscard]] std::int64_t global_batch_size() const;
  /// UsageError, naming `function`, while a step's gradients are not applied.
  void require_no_gradients(const char* function) const;
  /// Throws UsageError where what ranks have is not the share of one model: replicas that train
  /// apart, residuals of compression, gradients under way.
  void require_one_model(const char* function) const;
  /// After a checkpoint was loaded.
  void set_steps(std::int64_t steps, const TrainingProgress& progress) {
    steps_ = steps;
    session_->set_progress(progress);
  }

  [[nodiscard]] const ParallelPlan& plan() const { return plan_; }
  [[nodiscard]] Mesh& mesh() { return mesh_; }
  [[nodiscard]] const MeshPlace& place() const { return mesh_.place(); }
  [[nodiscard]] Runtime& runtime() const { return runtime_; }
  [[nodiscard]] Communicator& world() const { return world_; }
  /// State held by this rank, for checks and checkpoints.
  [[nodiscard]] const GradientSync& gradient_sync() const { return *sync_; }
  /// The training's state beside weights, and this rank's end of groups.
  [[nodiscard]] ModelParallel state() const { return parallel_.ends(); }

 private:
  enum class Gradients : std::uint8_t { none, local, synchronized };
  void require(Gradients state, const char* function) const;
  [[nodiscard]] Tensor pack_own_shard(std::int64_t count);
  void unpack(const Tensor& gathered, const std::vector<Tensor>& whole) const;

  Runtime& runtime_;
  Communicator& world_;
  ShardingConfiguration configuration_;
  std::unique_ptr<Optimizer> own_optimizer_;  // Used if no other is given.
  ParallelPlan plan_;
  Mesh mesh_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<GradientSync> deferred_;  // Around sync_, without automatic synchronization.
  RankParallel parallel_;
  TrainingObserver observer_;
  std::unique_ptr<TrainingSession> session_;
  std::int64_t steps_ = 0;
  Gradients gradients_ = Gradients::none;
};

// The models of the specification. Without an optimizer they train with plain SGD.

/// By a name of named_choices(): "fsdp", "tensor_parallel", "pipeline_parallel".
[[nodiscard]] std::unique_ptr<ShardedModel> make_sharded_model(
    std::string_view name, Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    const ShardingConfiguration& configuration = {});
/// pp x tp x dp; UsageError unless they are the world.
[[nodiscard]] std::unique_ptr<ShardedModel> make_hybrid_sharded_model(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    const ShardingConfiguration& configuration = {}, int pp = 1, int tp = 1, int dp = -1);

}  // namespace shardsim
