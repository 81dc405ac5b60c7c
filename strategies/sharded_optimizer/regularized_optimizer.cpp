#include "strategies/sharded_optimizer/regularized_optimizer.hpp"

#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

void require_penalty(const char* name, double value) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw UsageError("E0778", std::string(name) + " regularization is " + std::to_string(value),
                   "give a finite strength, 0 or more");
}

double sign(double value) {
  return static_cast<double>(value > 0.0) - static_cast<double>(value < 0.0);
}

}  // namespace

RegularizedOptimizer::RegularizedOptimizer(const Optimizer& inner, const Regularization& penalty)
    : inner_(inner), penalty_(penalty) {
  require_penalty("L1", penalty.l1);
  require_penalty("L2", penalty.l2);
}

void RegularizedOptimizer::step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
                                std::span<const Tensor> state, double gradient_scale,
                                std::int64_t step) const {
  if (!penalty_.acts()) {
    return inner_.step(runtime, parameter, gradient, state, gradient_scale, step);
  }
  // As wide as the weights: a gradient without its loss scale may be too small for its own dtype.
  const Tensor sum =
      runtime.allocate(MemoryCategory::optimizer, gradient.shape(), parameter.dtype());
  const ComputeOp op{"regularize", ComputeKind::memory_bound, parameter.dtype(), 0,
                     parameter.num_bytes() + gradient.num_bytes() + sum.num_bytes()};
  runtime.compute(op, [&] {
    for (std::int64_t i = 0; i < gradient.numel(); ++i) {
      const double weight = parameter.get(i);
      sum.set(i,
              gradient.get(i) * gradient_scale + penalty_.l1 * sign(weight) + penalty_.l2 * weight);
    }
  });
  inner_.step(runtime, parameter, sum, state, 1.0, step);
}

}  // namespace shardsim
