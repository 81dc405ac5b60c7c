#pragma once

#include <cstdint>
#include <string>

#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"

// The norm of a model's residual stream: layer norm or RMS norm over hidden_size elements, the same
// wherever the model has one.
namespace shardsim {

enum class NormKind : std::uint8_t {
  rms,
  layer,
  layer_without_bias,  ///< As Command A has it: CohereLayerNorm of Hugging Face transformers.
};

/// Where a branch F has its norms.
enum class NormPlacement : std::uint8_t {
  pre,       ///< x + F(norm(x)).
  post,      ///< x + norm(F(x)). Source: OLMo Team, "2 OLMo 2 Furious" (2024).
  sandwich,  ///< x + norm(F(norm(x))). Source: Gemma Team, "Gemma 2" (2024).
};

struct ModelNorm {
  std::int64_t hidden_size = 0;
  double epsilon = 0.0;
  NormForm form = {};

  /// Adds the weight, and the bias behind it; names start with `name`.
  void add_parameters(ParameterTable& table, const std::string& name) const;
  /// `first`: the pass's number of the weight.
  [[nodiscard]] NormOutput forward(const Pass& pass, int first, const Tensor& x) const {
    return apply_norm(pass, first, form, x, epsilon);
  }
  /// Returns dx, adds and reports the gradients.
  [[nodiscard]] Tensor backward(const Pass& pass, int first, const Tensor& dy, const Tensor& x,
                                const Tensor& statistics) const {
    return finish_norm(pass, first, form, dy, x, statistics);
  }
};

}  // namespace shardsim
