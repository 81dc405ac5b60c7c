#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime.hpp"

// Elementwise optimizers. Because every element is updated on its own, a rank may hold any slice
// of a parameter, its gradient and its state, and the result is that of the whole: this is what
// sharded optimizer states stand on. Muon needs whole matrices, and stands beside the optimizer of
// all other weights (muon.hpp). Norm-based optimizers (LAMB) will say so when they come.
namespace shardsim {

/// Settings of all optimizers; each reads its own.
struct OptimizerOptions {
  double learning_rate = 1e-3;
  double momentum = 0.9;      ///< momentum.
  double beta1 = 0.9;         ///< adam, adamw, lion.
  double beta2 = 0.999;       ///< adam, adamw, lion.
  double epsilon = 1e-8;      ///< adam, adamw, rmsprop.
  double weight_decay = 0.0;  ///< L2 term in the gradient; adamw, lion: decoupled.
  double rms_alpha = 0.99;    ///< rmsprop.
};

/// Throws UsageError unless rate and decay of the weights are finite and 0 or more, what decays a
/// moment is in [0, 1), and epsilon is above 0: also of settings that an optimizer does not read.
void validate(const OptimizerOptions& options);

/// Inputs of the update of one element. A rank with a slice can update it alone only if the element
/// itself suffices.
enum class UpdateRule : std::uint8_t {
  elementwise,
  norm_based,     ///< Norms over whole parameters, too (LAMB's trust ratio).
  gradient_free,  ///< No gradient at all (evolution strategies).
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual const OptimizerOptions& options() const = 0;
  [[nodiscard]] virtual UpdateRule update_rule() const { return UpdateRule::elementwise; }
  /// One tensor of the parameter's size per name ("exp_avg", "exp_avg_sq"), zero at the start.
  [[nodiscard]] virtual std::span<const std::string_view> state_names() const = 0;

  /// Updates `parameter` (master precision) and `state` in place from `gradient`, which is first
  /// multiplied by `gradient_scale` (clipping, unscaling). All are flat and of equal length;
  /// `state` is in the order of state_names(). `step` counts from 1. Arithmetic in double, rounded
  /// once per stored element. Charges one memory-bound operation.
  virtual void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
                    std::span<const Tensor> state, double gradient_scale,
                    std::int64_t step) const = 0;
};

/// `name`: one of optimizer_names(); UsageError naming these otherwise, and as validate(options).
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(std::string_view name,
                                                        const OptimizerOptions& options);

/// Names in the table, for help and errors.
[[nodiscard]] std::vector<std::string_view> optimizer_names();

/// The optimizer of a scenario that names none.
[[nodiscard]] std::string_view default_optimizer();
/// Gradient descent without state.
[[nodiscard]] std::string_view plain_optimizer();

}  // namespace shardsim
