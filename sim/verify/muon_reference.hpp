#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// Muon on one device: whole parameters, no communication. In blockwise mode it orthogonalizes the
/// slices of tensor-parallel ranks one by one, as these do.
class MuonReference {
 public:
  /// Both must outlive it.
  MuonReference(Runtime& runtime, const SyncPlan& plan) : runtime_(runtime), plan_(plan) {}

  /// Whether it updates that parameter of the plan's model.
  [[nodiscard]] bool takes(int parameter) const;
  /// One step; all tensors are flat and of the parameter's size.
  void step(int parameter, const Tensor& master, const Tensor& gradient, const Tensor& momentum,
            double gradient_scale) const;

 private:
  void orthogonalize_in_blocks(int parameter, const Tensor& matrix) const;

  Runtime& runtime_;
  const SyncPlan& plan_;
};

}  // namespace shardsim
