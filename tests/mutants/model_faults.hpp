#pragma once

#include <memory>
#include <set>
#include <string>

#include "strategies/model/model_wrapper.hpp"

// Bugs within a model: arithmetic that is left out, and weights that are read wrong.
namespace shardsim::test {

/// The model with the arithmetic of its operations called `name` left out, forward and backward;
/// they are charged, and what they would write is 0 where it is new.
[[nodiscard]] std::unique_ptr<Model> without_operation(const Model& model, const std::string& name);
/// The same in the backward pass alone.
[[nodiscard]] std::unique_ptr<Model> without_operation_backward(const Model& model,
                                                                std::string name);
/// The model itself. Names of its operations go to `names`, which outlives it.
[[nodiscard]] std::unique_ptr<Model> watched(const Model& model, std::set<std::string>& names);
/// The model that reads factor x w + shift of each parameter w whose name ends with `name`.
[[nodiscard]] std::unique_ptr<Model> with_bent_weight(const Model& model, std::string name,
                                                      double factor, double shift);

}  // namespace shardsim::test
