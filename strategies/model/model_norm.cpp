#include "strategies/model/model_norm.hpp"

namespace shardsim {

void ModelNorm::add_parameters(ParameterTable& table, const std::string& name) const {
  const Shape shape{hidden_size};
  table.add(is_layer_norm ? name + ".weight" : name, shape, {Init::Kind::ones, 0.0});
  if (is_layer_norm) table.add(name + ".bias", shape, {Init::Kind::zeros, 0.0});
}

}  // namespace shardsim
