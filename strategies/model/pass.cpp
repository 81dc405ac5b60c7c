#include "strategies/model/pass.hpp"

#include <utility>

namespace shardsim {

namespace {

// Tensor to which a norm's backward adds gradients that are needed later. They are a cheap
// by-product of dx. They stay sums in fp64, so that adding them later rounds as adding them at once
// would.
Tensor sum_for_later(const Pass& pass, const Tensor& weight) {
  return pass.runtime.allocate(MemoryCategory::activations, weight.shape(), DType::fp64);
}
void finish_later(const Pass& pass, int k, Tensor sum) {
  pass.later->push(
      {.kind = WeightGradient::Kind::sum, .parameter = pass.first + k, .dy = std::move(sum)});
}

}  // namespace

Tensor finish_layer_norm(const Pass& pass, int k, const Tensor& dy, const Tensor& x,
                         const Tensor& statistics) {
  Tensor dx;
  if (pass.later != nullptr) {
    const Tensor weight = pass.weight(k);
    Tensor bias_sum = sum_for_later(pass, weight);
    Tensor weight_sum = sum_for_later(pass, weight);
    dx = layer_norm_backward(pass.runtime, dy, x, weight, statistics, weight_sum, bias_sum);
    finish_later(pass, k + 1, std::move(bias_sum));
    finish_later(pass, k, std::move(weight_sum));
    return dx;
  }
  {  // Nothing holds on to a gradient that has been reported: its memory may be about to be freed.
    const Tensor weight = pass.weight(k);
    const Tensor bias_gradient = pass.gradient(k + 1);
    const Tensor weight_gradient = pass.gradient(k);
    dx = layer_norm_backward(pass.runtime, dy, x, weight, statistics, weight_gradient,
                             bias_gradient);
  }
  pass.ready(k + 1);
  pass.ready(k);
  return dx;
}

Tensor finish_rms_norm(const Pass& pass, int k, const Tensor& dy, const Tensor& x,
                       const Tensor& statistics) {
  Tensor dx;
  if (pass.later != nullptr) {
    const Tensor weight = pass.weight(k);
    Tensor weight_sum = sum_for_later(pass, weight);
    dx = rms_norm_backward(pass.runtime, dy, x, weight, statistics, weight_sum);
    finish_later(pass, k, std::move(weight_sum));
    return dx;
  }
  {
    const Tensor weight = pass.weight(k);
    const Tensor weight_gradient = pass.gradient(k);
    dx = rms_norm_backward(pass.runtime, dy, x, weight, statistics, weight_gradient);
  }
  pass.ready(k);
  return dx;
}

}  // namespace shardsim
