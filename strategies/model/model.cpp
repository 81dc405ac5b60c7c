#include "strategies/model/model.hpp"

namespace shardsim {

std::int64_t num_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : model.parameters()) count += spec.whole_shape().numel();
  return count;
}

}  // namespace shardsim
