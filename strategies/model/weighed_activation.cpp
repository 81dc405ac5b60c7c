#include "strategies/model/weighed_activation.hpp"

namespace shardsim {

namespace {

double value_at(const ActivationForm& form, const Tensor& gate, const Tensor& up, std::int64_t i) {
  return activation_value(form, gate.defined() ? gate.get(i) : 0.0, up.get(i));
}

}  // namespace

void weigh_activation(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                      const Tensor& up, const Tensor& weights, const Tensor& y) {
  runtime.off_the_clock([&] {
    const std::int64_t width = last_dim(y);
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      y.set(i, weights.get(i / width) * value_at(form, gate, up, i));
    }
  });
}

Tensor weigh_activation_backward(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                                 const Tensor& up, const Tensor& weights, const Tensor& dy) {
  Tensor slopes = new_activation(runtime, weights.shape(), weights.dtype());
  runtime.off_the_clock([&] {
    const std::int64_t width = last_dim(dy);
    for (std::int64_t row = 0; row < weights.numel(); ++row) {
      double slope = 0.0;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
        slope += dy.get(i) * value_at(form, gate, up, i);
        dy.set(i, dy.get(i) * weights.get(row));
      }
      slopes.set(row, slope);
    }
  });
  return slopes;
}

}  // namespace shardsim
