#pragma once

#include <memory>

#include "strategies/gradient_sync/gradient_reducer.hpp"

// Private to strategies/gradient_sync: what DDP, ZeRO and FSDP have in common.
namespace shardsim {

/// Owns a part of every chunk: all of it or, if sharded, this rank's shard. Norm and finiteness are
/// of all gradients together: over those that a rank owns, then over all owners. Every gradient
/// counts once: one that all tensor-parallel ranks have, on the first of them, a tied one on the
/// first stage.
class OwningSync : public GradientSync {
 public:
  Tensor gradient(int parameter) override { return reducer_->gradient(parameter); }
  [[nodiscard]] bool has_gradients() const override { return reducer_->has_gradients(); }
  void drain() override { reducer_->drain(); }
  [[nodiscard]] bool found_inf() override;
  [[nodiscard]] double gradient_norm(NormType type) override;
  void visit(StateKind kind, const StateVisitor& visitor) const override;

 protected:
  /// The derived class allocates `weights_`, then makes `reducer_`, then calls initialize().
  OwningSync(const SyncPlan& plan, Runtime& runtime, Mesh& mesh, bool sharded)
      : plan_(plan),
        runtime_(runtime),
        mesh_(mesh),
        sharded_(sharded),
        owned_(plan, runtime, mesh, sharded ? mesh.replicas(plan.kind).num_shards : 1) {}

  /// Weights of a chunk that this rank keeps, and where in the chunk they begin.
  struct HeldWeights {
    std::int64_t begin;
    Tensor values;
  };
  [[nodiscard]] virtual HeldWeights held_weights(int chunk) const = 0;

  /// Fills the weights that the rank keeps, and their masters.
  void initialize();
  [[nodiscard]] OnDevice gradient_of(int chunk) {
    return {runtime_, plan_.offload_gradients, MemoryCategory::grads, reducer_->owned(chunk)};
  }
  [[nodiscard]] int num_chunks() const { return static_cast<int>(plan_.layout->chunks().size()); }

  const SyncPlan& plan_;
  Runtime& runtime_;
  Mesh& mesh_;
  bool sharded_;
  OwnedState owned_;
  Tensor weights_;  // Whole chunks with padding, or this rank's shards of them.
  std::unique_ptr<GradientReducer> reducer_;

 private:
  [[nodiscard]] double over_owners(double value, ReduceOp op, DType dtype, const char* label);
};

}  // namespace shardsim
