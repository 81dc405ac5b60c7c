#pragma once

#include "backends/runtime.hpp"

#include "strategies/model/parameter.hpp"

namespace shardsim {

class TensorParallel;
class WeightGradientQueue;

/// What a module computes with on a rank: the same model code runs whole on one device, or in
/// parts.
struct ModelContext {
  Runtime& runtime;
  Parameters& parameters;
  /// Null: whole on this rank. REQUIRES: else of the degree that the model was made with.
  TensorParallel* tensor_parallel = nullptr;
  /// Null: backward adds the gradients of weights at once. Else it leaves them here.
  WeightGradientQueue* later = nullptr;

  /// The same with other parameters.
  [[nodiscard]] ModelContext with(Parameters& others) const {
    return {runtime, others, tensor_parallel, later};
  }
};

}  // namespace shardsim
