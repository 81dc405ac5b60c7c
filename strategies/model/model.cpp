#include "strategies/model/model.hpp"

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

}  // namespace shardsim
