#include "strategies/model/model_norm.hpp"

namespace shardsim {

void ModelNorm::add_parameters(ParameterTable& table, const std::string& name) const {
  const Shape shape{hidden_size};
  const Init::Kind start = form.is_zero_centred ? Init::Kind::zeros : Init::Kind::ones;
  table.add(form.has_bias ? name + ".weight" : name, shape, {start, 0.0});
  if (form.has_bias) table.add(name + ".bias", shape, {Init::Kind::zeros, 0.0});
}

}  // namespace shardsim
