#include "strategies/model/model.hpp"

#include <utility>

#include "strategies/model/run_module.hpp"
#include "strategies/model/weight_gradient.hpp"

namespace shardsim {

void Model::run_weight_gradients(WeightGradientQueue& queue, const ModelContext& context) const {
  queue.run(context);
}

std::int64_t num_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : model.parameters()) count += spec.whole_shape().numel();
  return count;
}

// Each module is handed the only reference to its input, which can thus be freed within it.

Tensor forward_chunk(const Model& model, int chunk, const ModelContext& context,
                     ModuleParameters& parameters, Tensor input, const Batch& batch,
                     std::span<Saved> saved) {
  const ModuleRange modules = model.modules_of_chunk(chunk);
  for (int i = 0; i < modules.count; ++i) {
    const int module = modules.first + i;
    parameters.before_forward(module);
    input = run_forward(model, module, context, std::exchange(input, Tensor()), batch,
                        saved[static_cast<std::size_t>(i)]);
    parameters.after_forward(module);
  }
  return input;
}

Tensor backward_chunk(const Model& model, int chunk, const ModelContext& context,
                      ModuleParameters& parameters, Tensor gradient, const Batch& batch,
                      std::span<Saved> saved) {
  const ModuleRange modules = model.modules_of_chunk(chunk);
  for (int i = modules.count - 1; i >= 0; --i) {
    const int module = modules.first + i;
    parameters.before_backward(module);
    gradient = run_backward(model, module, context, std::exchange(gradient, Tensor()), batch,
                            saved[static_cast<std::size_t>(i)]);
    parameters.after_backward(module);
    if (context.later == nullptr) parameters.after_weight_gradients(module);
  }
  return gradient;
}

void finish_chunk(const Model& model, int chunk, const ModelContext& context,
                  ModuleParameters& parameters, WeightGradientQueue& queue) {
  model.run_weight_gradients(queue, context);
  const ModuleRange modules = model.modules_of_chunk(chunk);
  for (int i = modules.count - 1; i >= 0; --i) parameters.after_weight_gradients(modules.first + i);
}

}  // namespace shardsim
