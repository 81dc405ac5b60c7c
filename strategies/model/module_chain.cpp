#include "strategies/model/module_chain.hpp"

#include <utility>

namespace shardsim {

// Each module is handed the only reference to its input, which can thus be freed within it.

Tensor forward_all(const Model& model, Runtime& runtime, ModuleParameters& parameters,
                   const Batch& batch, std::vector<Saved>& saved) {
  Tensor activation;
  for (int module = 0; module < model.num_modules(); ++module) {
    parameters.before_forward(module);
    activation = model.forward(module, {runtime, parameters}, std::exchange(activation, Tensor()),
                               batch, saved[static_cast<std::size_t>(module)]);
    parameters.after_forward(module);
  }
  return activation;
}

void backward_all(const Model& model, Runtime& runtime, ModuleParameters& parameters,
                  const Batch& batch, std::vector<Saved>& saved) {
  Tensor gradient;
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    parameters.before_backward(module);
    gradient = model.backward(module, {runtime, parameters}, std::exchange(gradient, Tensor()),
                              batch, saved[static_cast<std::size_t>(module)]);
    parameters.after_backward(module);
  }
}

}  // namespace shardsim
