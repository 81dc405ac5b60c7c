#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// The gradients of all chunks in one buffer, padding included: what every reducer that keeps them
/// whole fills.
class WholeGradients {
 public:
  WholeGradients(const SyncPlan& plan, Runtime& runtime)
      : layout_(*plan.layout),
        runtime_(runtime),
        values_(runtime.allocate(MemoryCategory::grads, {plan.layout->padded()},
                                 plan.gradient_dtype)) {}

  void zero() { runtime_.zero("zero_gradients", values_); }
  [[nodiscard]] Tensor of_parameter(int parameter) const {
    const FlatPlace& place = layout_.place(parameter);
    return values_.view(layout_.chunk(place.chunk).offset + place.offset, layout_.shape(parameter));
  }
  [[nodiscard]] Tensor of_chunk(int index) const {
    const FlatChunk& chunk = layout_.chunk(index);
    return values_.view(chunk.offset, {chunk.padded});
  }
  [[nodiscard]] const Tensor& all() const { return values_; }

 private:
  const FlatLayout& layout_;
  Runtime& runtime_;
  Tensor values_;
};

}  // namespace shardsim
