#pragma once

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

namespace shardsim {

/// Any gradient synchronization, but nothing is reduced before finish_gradients: until then every
/// rank has the whole gradient of its own data. REQUIRES: a plan that does not reduce every
/// microbatch.
class DeferredSync final : public GradientSyncWrapper {
 public:
  /// `inner` and `model`, the one it works on, must outlive it.
  DeferredSync(GradientSync& inner, const Model& model)
      : GradientSyncWrapper(inner), model_(model) {}

  void begin_weight_gradients(int chunk, bool /*last*/) override {
    inner_.begin_weight_gradients(chunk, false);
  }
  /// Tells the inner one what a last microbatch would, without computing anything.
  void finish_gradients() override;

 private:
  const Model& model_;
};

}  // namespace shardsim
