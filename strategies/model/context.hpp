#pragma once

#include "backends/runtime.hpp"

#include "strategies/model/parameter.hpp"

namespace shardsim {

class ContextParallel;
class ExpertParallel;
class TensorParallel;
class WeightGradientQueue;

/// How a rank shares the computing of layers with others: its end of the groups of a mesh. Null
/// where the mesh has no such axis; all null: whole on this rank.
struct ModelParallel {
  TensorParallel* tensor = nullptr;
  ContextParallel* context = nullptr;
  ExpertParallel* expert = nullptr;
};

/// The context of a module's computation on a rank: the same model code runs whole on one device,
/// or in parts.
struct ModelContext {
  Runtime& runtime;
  Parameters& parameters;
  /// REQUIRES: of the degrees that the model was made with.
  ModelParallel parallel = {};
  /// Null: backward adds the gradients of weights at once. Else it leaves them here.
  WeightGradientQueue* later = nullptr;

  /// The same with other parameters.
  [[nodiscard]] ModelContext with(Parameters& others) const {
    return {runtime, others, parallel, later};
  }
};

}  // namespace shardsim
