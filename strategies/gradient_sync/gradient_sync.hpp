#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "strategies/gradient_sync/data_parallel.hpp"
#include "strategies/gradient_sync/flat_layout.hpp"
#include "strategies/mesh.hpp"
#include "strategies/model/model.hpp"
#include "strategies/optimizer/muon.hpp"
#include "strategies/optimizer/optimizer.hpp"

// How data-parallel ranks keep one model: who stores what, when gradients are reduced and weights
// gathered. The training loop calls these hooks around a model that knows nothing of them.
//
// Gradients are SUMS over ranks and microbatches: the loss is scaled by 1 / (targets of the global
// batch) before backward, so that ranks with different numbers of tokens count right.
namespace shardsim {

/// Settings that all ranks of a run share; they outlive the ranks' strategies.
struct SyncPlan {
  const Model* model = nullptr;
  WeightKind kind = WeightKind::dense;  ///< Its ranks share these weights.
  const Optimizer* optimizer = nullptr;
  /// Takes the matrices of hidden layers from `optimizer`. ZeRO stages 0 and 1.
  std::optional<MuonOptions> muon = {};
  /// `model` as a tensor-parallel rank has it, with the same parameters, for references; null:
  /// nothing is cut.
  const Model* cut_model = nullptr;
  const FlatLayout* layout = nullptr;
  std::uint64_t seed = 1;
  DType weight_dtype = DType::fp32;  ///< For the weights that arithmetic uses.
  DType master_dtype = DType::fp32;  ///< For the weights the optimizer updates.
  bool narrow_weights = false;       ///< Those of products in 8 bits: see narrow_weights.hpp.
  /// For the state of the elementwise optimizer; none: as the weights it updates.
  std::optional<DType> state_dtype = {};
  DType gradient_dtype = DType::fp32;  ///< For gradients in memory and on the wire.
  /// Reduce while backward still runs. Else after it, where gradients are whole (DDP, ZeRO-1);
  /// ZeRO-2 and FSDP reduce within backward all the same, to free memory, and wait at once.
  bool overlap_reduce = true;
  /// FSDP: gather units while others compute. ZeRO-1 and 2: gather a bucket while the optimizer
  /// updates later ones.
  bool overlap_gather = true;
  int prefetch_units = 1;               ///< FSDP: units gathered ahead of their use.
  bool reshard_after_forward = true;    ///< FSDP: gather again for backward.
  bool copies_units = false;            ///< FSDP: units are copied to and from flat tensors.
  int reductions_in_flight = 1;         ///< ZeRO-2, FSDP: unfinished reductions that keep buffers.
  bool reduce_every_microbatch = true;  ///< ZeRO-2, FSDP: else gradients stay whole till the last.
  /// In host memory: optimizer state and masters; ZeRO-2, FSDP: reduced gradients; FSDP: weights.
  bool offload_optimizer = false;
  bool offload_gradients = false;
  bool offload_parameters = false;
  LocalTraining local;              ///< Replicas that train apart.
  GradientCompression compression;  ///< DDP without other axes alone.
  /// DDP, ZeRO-1: updates that are made while a reduction is under way. Its gradients are then as
  /// many updates old, and the first steps have nothing to update from.
  int max_staleness = 0;

  /// Muon's momentum is of the master's type, like the directions that are made of it.
  [[nodiscard]] DType state(bool of_muon) const {
    return of_muon ? master_dtype : state_dtype.value_or(master_dtype);
  }
};

/// Throws UsageError for counts below 0 and for dtypes that hold no fractions.
void validate(const SyncPlan& plan);

/// Norm of all gradients as one vector: the root of the sum of squares, or the largest |x|. The
/// latter is infinite if there is a NaN.
enum class NormType { two, infinity };

/// Kinds of state that a visitor of a rank is shown. `rank_state` belongs to one rank alone, in
/// place of or beside its share of the model (error feedback): no other layout can use it.
enum class StateKind { gradient, parameter, optimizer_state, rank_state };

/// Elements [first, first + values.numel()) of a parameter, or of its gradient or state.
struct StatePiece {
  StateKind kind;
  std::string_view state;  ///< Name of the optimizer state ("exp_avg", "master"); else empty.
  int parameter;
  std::int64_t first;
  Tensor values;
  bool on_host = false;  ///< Offloaded: who works on it brings it to the device (owned_state.hpp).
};
using StateVisitor = std::function<void(const StatePiece&)>;

/// Hooks, in the order in which a step calls them: begin_step; around every module before_/
/// after_forward; begin_weight_gradients before a microbatch's first gradient of a model chunk,
/// then, last module first, before_/after_backward and after_weight_gradients; finish_gradients;
/// then, unless a gradient overflowed and the step is skipped, after clipping is decided,
/// apply_optimizer. Microbatches may overtake each other between forward and backward, as pipelines
/// do.
class GradientSync : public ModuleParameters {
 public:
  virtual void begin_step() = 0;
  /// `last`: of this chunk in this step.
  virtual void begin_weight_gradients(int chunk, bool last) = 0;
  /// The reductions of the gradients to update from have ended: those that this rank owns are those
  /// of the global batch.
  virtual void finish_gradients() = 0;
  /// Whether finish_gradients has left gradients to update from: not in the first steps of a
  /// training that applies them late. The same on every rank.
  [[nodiscard]] virtual bool has_gradients() const { return true; }
  /// After the last step: waits for all that is still under way. Late gradients are not applied.
  virtual void drain() {}
  /// Whether a gradient is infinite or NaN: the largest answer of all ranks that own different
  /// gradients, the same on each. Reads them once; communicates. False where there are no data.
  [[nodiscard]] virtual bool found_inf() = 0;
  /// Norm of the gradients of all ranks, each counted once: the same on every rank. Communicates
  /// where they are sharded. The value is 0 where there are no data.
  [[nodiscard]] virtual double gradient_norm(NormType type) = 0;
  /// Updates what this rank owns from its gradients times `gradient_scale` (the clip coefficient
  /// by the loss scale: there is no pass over gradients to unscale them), and makes the new weights
  /// available for the next step. `step` counts updates from 1.
  virtual void apply_optimizer(double gradient_scale, std::int64_t step) = 0;

  /// Whether weights stay in memory between their uses in a step.
  [[nodiscard]] virtual bool keeps_weights() const { return true; }

  /// Shows everything this rank holds of a kind; shards only their part. For checks and
  /// checkpoints: outside trace, ledger and time.
  virtual void visit(StateKind kind, const StateVisitor& visitor) const = 0;
};

/// Another gradient synchronization, passed on as it is. Derive from it, and override the one thing
/// that is to change (docs/guide/check.md has an example).
class GradientSyncWrapper : public GradientSync {
 public:
  /// `inner` must outlive it.
  explicit GradientSyncWrapper(GradientSync& inner) : inner_(inner) {}
  explicit GradientSyncWrapper(std::unique_ptr<GradientSync> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  Tensor weight(int parameter) override { return inner_.weight(parameter); }
  Tensor gradient(int parameter) override { return inner_.gradient(parameter); }
  void gradient_ready(int parameter) override { inner_.gradient_ready(parameter); }
  [[nodiscard]] bool is_settled(int parameter) const override {
    return inner_.is_settled(parameter);
  }
  [[nodiscard]] bool keeps_weights() const override { return inner_.keeps_weights(); }
  void before_forward(int module) override { inner_.before_forward(module); }
  void after_forward(int module) override { inner_.after_forward(module); }
  void before_backward(int module) override { inner_.before_backward(module); }
  void after_backward(int module) override { inner_.after_backward(module); }
  void after_weight_gradients(int module) override { inner_.after_weight_gradients(module); }
  void begin_step() override { inner_.begin_step(); }
  void begin_weight_gradients(int chunk, bool last) override {
    inner_.begin_weight_gradients(chunk, last);
  }
  void finish_gradients() override { inner_.finish_gradients(); }
  [[nodiscard]] bool has_gradients() const override { return inner_.has_gradients(); }
  void drain() override { inner_.drain(); }
  [[nodiscard]] bool found_inf() override { return inner_.found_inf(); }
  [[nodiscard]] double gradient_norm(NormType type) override { return inner_.gradient_norm(type); }
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    inner_.apply_optimizer(gradient_scale, step);
  }
  void visit(StateKind kind, const StateVisitor& visitor) const override {
    inner_.visit(kind, visitor);
  }

 private:
  std::unique_ptr<GradientSync> owned_;

 protected:
  GradientSync& inner_;
};

/// Which data-parallel state is sharded over the mesh's dp_shard x cp ranks: ZeRO stages 0 to 3.
/// Where dp_replicate > 1, shards are replicated and their gradients summed over the replicas, too.
/// Source: Rajbhandari et al., "ZeRO" (SC20); Zhao et al., "PyTorch FSDP" (VLDB 2023).
[[nodiscard]] std::unique_ptr<GradientSync> make_gradient_sync(int zero_stage, const SyncPlan& plan,
                                                               Runtime& runtime, Mesh& mesh);

/// Weights whole on every rank, gradients reduced bucket by bucket while backward runs:
/// stage 0 (DDP) all_reduces; stage 1 shards the optimizer's state; stage 2 also the gradients.
/// Elements sent per rank and step, N shards: 2 (N-1)/N of the parameters; stage 2 with A
/// microbatches reduced each: (A + 1) (N-1)/N.
[[nodiscard]] std::unique_ptr<GradientSync> make_bucketed_sync(int zero_stage, const SyncPlan& plan,
                                                               Runtime& runtime, Mesh& mesh);

/// ZeRO-3 / FSDP: everything sharded; a unit's weights are gathered before its modules run and
/// freed after, its gradients reduced as soon as its backward is done. A unit that several modules
/// use (tied embeddings) stays gathered from its first forward to its last backward.
/// Elements sent per rank and microbatch, N shards: 3 (N-1)/N of the parameters; 2 (N-1)/N where
/// units stay gathered after forward. Weights live at once: the shard and 1 + prefetch units.
[[nodiscard]] std::unique_ptr<GradientSync> make_fully_sharded_sync(const SyncPlan& plan,
                                                                    Runtime& runtime, Mesh& mesh);

/// The chunks that a ZeRO stage works with. `uncut`: the same modules without tensor or expert
/// parallelism, to learn from in which order gradients become ready. `kind`: of these weights.
[[nodiscard]] FlatLayout make_layout(int zero_stage, const Model& model, const Model& uncut,
                                     const MeshShape& mesh, DType gradient_dtype,
                                     std::int64_t bucket_bytes, std::int64_t first_bucket_bytes,
                                     std::int64_t minimum_numel = 0,
                                     WeightKind kind = WeightKind::dense,
                                     MatrixBuckets matrices = MatrixBuckets::mixed);

/// Where a plan's matrices lie: see MuonDataParallel.
[[nodiscard]] MatrixBuckets matrix_buckets_of(const SyncPlan& plan, int zero_stage);

}  // namespace shardsim
