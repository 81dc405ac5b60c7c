#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

// Norm and finiteness of all gradients together: over those that a rank owns, then over all owners.
// Every gradient counts once: one that all tensor-parallel ranks have, on the first of them, a tied
// one on the first stage.
namespace shardsim {

/// Whether this rank's copy of a parameter is the one that counts in sums over ranks (and the one
/// that a checkpoint keeps).
[[nodiscard]] bool is_main_copy(const ParameterSpec& spec, const MeshPlace& place);

/// The global norm of the gradients, a chunk at a time.
class GradientNorm {
 public:
  /// All must outlive it.
  GradientNorm(Runtime& runtime, const SyncPlan& plan, Mesh& mesh, NormType type)
      : runtime_(runtime), plan_(plan), mesh_(mesh), type_(type) {}

  /// Adds what counts of `values`, elements [begin, begin + values.numel()) of a chunk; read as one
  /// memory-bound operation.
  void add(int chunk, std::int64_t begin, const Tensor& values);
  /// The norm over all ranks that own different gradients: the shards, if `sharded`, the
  /// tensor-parallel ranks (of experts: expert-parallel ranks) and the stages. The same on each of
  /// them; 0 without data. Posts one scalar on each axis of more than one rank.
  [[nodiscard]] double over_owners(bool sharded);

 private:
  Runtime& runtime_;
  const SyncPlan& plan_;
  Mesh& mesh_;
  NormType type_;
  double own_ = 0.0;  // The sum of squares, or the largest |x|.
};

/// Whether an element is infinite or NaN; read as one memory-bound operation. False without data.
[[nodiscard]] bool has_non_finite(Runtime& runtime, const Tensor& values);
/// Whether that is so on any of the ranks that own different gradients: their maximum.
[[nodiscard]] bool any_of_owners(Runtime& runtime, Mesh& mesh, WeightKind kind, bool sharded,
                                 bool found);

}  // namespace shardsim
