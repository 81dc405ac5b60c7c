#pragma once

#include <cstdint>
#include <string>

#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"

// The norm of a model's residual stream: layer norm or RMS norm over hidden_size elements, the same
// wherever the model has one.
namespace shardsim {

struct ModelNorm {
  std::int64_t hidden_size = 0;
  double epsilon = 0.0;
  bool is_layer_norm = false;  ///< It has a bias; else it is RMS norm.

  /// Adds the weight, and the bias behind it; names start with `name`.
  void add_parameters(ParameterTable& table, const std::string& name) const;
  /// `first`: the pass's number of the weight.
  [[nodiscard]] NormOutput forward(const Pass& pass, int first, const Tensor& x) const {
    return apply_norm(pass, first, is_layer_norm, x, epsilon);
  }
  /// Returns dx, adds and reports the gradients.
  [[nodiscard]] Tensor backward(const Pass& pass, int first, const Tensor& dy, const Tensor& x,
                                const Tensor& statistics) const {
    return finish_norm(pass, first, is_layer_norm, dy, x, statistics);
  }
};

}  // namespace shardsim
