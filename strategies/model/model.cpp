#include "strategies/model/model.hpp"

#include <set>
#include <utility>

#include "strategies/model/activation_offload.hpp"
#include "strategies/model/run_module.hpp"
#include "strategies/model/weight_gradient.hpp"

namespace shardsim {

void Model::run_weight_gradients(WeightGradientQueue& queue, const ModelContext& context) const {
  queue.run(context);
}

// In this order a factor that is a power of two changes no digit.
void set_loss_scales(Batch& batch, const Model& model, const TargetCounts& targets, double factor) {
  const auto scale_of = [&](std::size_t loss) {
    return targets[loss] > 0.0 ? factor * (1.0 / targets[loss]) : 0.0;
  };
  batch.loss_scale = scale_of(0);
  batch.ahead_scales.clear();
  for (std::size_t loss = 1; loss < targets.size(); ++loss) {
    batch.ahead_scales.push_back(scale_of(loss) * model.loss_weight(static_cast<int>(loss)));
  }
}

double mean_of_losses(const Model& model, const std::vector<double>& sums,
                      const TargetCounts& targets) {
  double mean = 0.0;
  for (std::size_t loss = 0; loss < sums.size(); ++loss) {
    const double one = targets[loss] > 0.0 ? sums[loss] / targets[loss] : sums[loss];
    mean += loss == 0 ? one : one * model.loss_weight(static_cast<int>(loss));
  }
  return mean;
}

std::int64_t num_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : model.parameters()) count += spec.whole_shape().numel();
  return count;
}

std::vector<int> tensor_copies_of(const Model& model) {
  std::set<int> found;
  for (const ParameterSpec& spec : model.parameters()) {
    if (spec.is_copied()) found.insert(spec.split.copies);
  }
  return {found.begin(), found.end()};
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
    if (context.offload != nullptr) {
      context.offload->after_forward(module, saved[static_cast<std::size_t>(i)]);
    }
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
    if (context.offload != nullptr) {
      context.offload->before_backward(module, saved.first(static_cast<std::size_t>(i) + 1));
    }
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
