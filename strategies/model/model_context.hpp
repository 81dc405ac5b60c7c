#pragma once

#include "backends/graph_scope.hpp"
#include "backends/runtime.hpp"
#include "backends/tensor.hpp"

#include "strategies/model/parameter.hpp"

// A model's code is given this beside tensors: where it computes, and with whom.
namespace shardsim {

class ActivationOffload;
class ContextParallel;
class DelayedScales;
class ExpertParallel;
class QuantizedWeights;
class RouterBiases;
class TensorParallel;
class WeightGradientQueue;

/// How a rank shares the computing of layers with others: its end of the groups of a mesh. Null
/// where the mesh has no such axis; all null: whole on this rank.
struct ModelParallel {
  TensorParallel* tensor = nullptr;
  ContextParallel* context = nullptr;
  ExpertParallel* expert = nullptr;
  RouterBiases* router_biases = nullptr;    ///< Added to scores, to choose experts.
  DelayedScales* delayed_scales = nullptr;  ///< For the recipe that needs a past.
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
  bool is_last_microbatch = false;  ///< The step's.
  /// Modules run even where a recorder knows what they do.
  bool is_run_each_time = false;
  /// Bytes of each element of a gradient that is apart from the others until it has been added to
  /// them: see FrameworkMemory.
  double apart_gradient_bytes = 0.0;
  /// Where copies of weights for products in low precision stay. Null: nowhere; then their readers
  /// make them at each use, or, as a part of a step is priced that has made them before, never.
  QuantizedWeights* quantized_weights = nullptr;
  bool quantizes_at_use = false;
  ActivationOffload* offload = nullptr;  ///< Null: activations stay on the device.

  // A model asks these, not `parameters`: code outside the model answers, and its kernels are no
  // part of the model's graphs.
  [[nodiscard]] Tensor weight_of(int parameter) const {
    const Runtime::OutsideGraph outside(runtime);
    return parameters.weight(parameter);
  }
  [[nodiscard]] Tensor gradient_of(int parameter) const {
    const Runtime::OutsideGraph outside(runtime);
    return parameters.gradient(parameter);
  }
  void report_gradient(int parameter) const {
    const Runtime::OutsideGraph outside(runtime);
    parameters.gradient_ready(parameter);
  }

  /// The same with other parameters.
  [[nodiscard]] ModelContext with(Parameters& others) const {
    return {runtime,
            others,
            parallel,
            later,
            is_last_microbatch,
            is_run_each_time,
            apart_gradient_bytes,
            quantized_weights,
            quantizes_at_use,
            offload};
  }
};

}  // namespace shardsim
