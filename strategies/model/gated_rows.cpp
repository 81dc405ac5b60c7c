#include "strategies/model/gated_rows.hpp"

#include "strategies/model/activation.hpp"

namespace shardsim {

Tensor gated_rows_forward(Runtime& runtime, const Tensor& logits, const Tensor& x) {
  require_size("gated rows", "number of logits", logits.numel(), num_rows(x));
  Tensor y = new_activation(runtime, x.shape(), x.dtype());
  const std::int64_t bytes = logits.num_bytes() + x.num_bytes() + y.num_bytes();
  runtime.compute(memory_op("gated_rows", x.dtype(), bytes, KernelFamily::activation), [&] {
    const std::int64_t h = last_dim(x);
    for (std::int64_t row = 0; row < num_rows(x); ++row) {
      const double gate = sigmoid(logits.get(row));
      for (std::int64_t i = row * h; i < (row + 1) * h; ++i) y.set(i, gate * x.get(i));
    }
  });
  return y;
}

GatedRowsGradient gated_rows_backward(Runtime& runtime, const Tensor& logits, const Tensor& x,
                                      const Tensor& dy) {
  require_size("gated rows backward", "number of gradients", dy.numel(), x.numel());
  GatedRowsGradient gradient{new_activation(runtime, logits.shape(), logits.dtype()),
                             new_activation(runtime, x.shape(), dy.dtype())};
  const std::int64_t bytes =
      2 * logits.num_bytes() + x.num_bytes() + dy.num_bytes() + gradient.x.num_bytes();
  const KernelFamily family = KernelFamily::activation_backward;
  runtime.compute(memory_op("gated_rows_backward", dy.dtype(), bytes, family), [&] {
    const std::int64_t h = last_dim(x);
    for (std::int64_t row = 0; row < num_rows(x); ++row) {
      const double gate = sigmoid(logits.get(row));
      double slope = 0.0;
      for (std::int64_t i = row * h; i < (row + 1) * h; ++i) {
        slope += dy.get(i) * x.get(i);
        gradient.x.set(i, gate * dy.get(i));
      }
      gradient.logits.set(row, slope * gate * (1.0 - gate));
    }
  });
  return gradient;
}

}  // namespace shardsim
