#include "strategies/model/region.hpp"

#include <utility>

#include "strategies/model/layer.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

// Shape of an activation outside of regions, with all its tokens together.
Shape whole_shape(const Pass& pass, const Tensor& x) {
  if (!pass.parallel.tensor->sequence_parallel()) return x.shape();
  const std::int64_t tokens = num_rows(x) * pass.parallel.tensor->size();
  return {tokens / pass.seq_len, pass.seq_len, last_dim(x)};
}

std::int64_t first_token(const Pass& pass, const Tensor& x) {
  return pass.parallel.tensor == nullptr ? 0 : pass.parallel.tensor->first_token(num_rows(x));
}

Tensor input_gradient(const Pass& pass, std::span<ColumnLinear> layers, bool drop) {
  Tensor dx;
  for (ColumnLinear& layer : layers) {
    const Tensor weight = pass.weight(layer.k);
    if (dx.defined()) {
      linear_backward_input_add(pass.runtime, layer.dy, weight, dx);
    } else {
      dx = linear_backward_input(pass.runtime, layer.dy, weight);
    }
    if (drop) layer.dy = {};
  }
  return dx;
}

// Backward reports parameters from the last to the first.
void finish_columns(const Pass& pass, std::span<ColumnLinear> layers, const Tensor& x, bool drop) {
  for (std::size_t left = layers.size(); left > 0; --left) {
    ColumnLinear& layer = layers[left - 1];
    if (layer.has_bias) finish_bias(pass, layer.k + 1, layer.dy);
    add_weight_gradient(
        pass,
        {.parameter = pass.first + layer.k, .is_last = layer.is_last, .dy = layer.dy, .x = x});
    if (drop) layer.dy = {};
  }
}

}  // namespace

Tensor enter_region(const Pass& pass, const Tensor& x, const char* layer) {
  if (pass.parallel.tensor == nullptr) return x;
  return pass.parallel.tensor->copy_to(pass.runtime, x, whole_shape(pass, x), layer);
}

Tensor backward_columns(const Pass& pass, std::span<ColumnLinear> layers, Tensor x,
                        const char* layer, bool wants_input_gradient) {
  TensorParallel* parallel = pass.parallel.tensor;
  if (parallel == nullptr) {
    finish_columns(pass, layers, x, /*drop=*/!wants_input_gradient);
    x = {};
    if (!wants_input_gradient) return {};
    Tensor dx = input_gradient(pass, layers, /*drop=*/true);
    round_shared_sum(pass.runtime, dx, SumOver::tensor_ranks);
    return dx;
  }
  // Posted first, so that it travels while the input's gradient is computed.
  const bool gathers_later = parallel->sequence_parallel() && pass.later != nullptr;
  PendingTensor all_x;
  if (!gathers_later) {
    all_x = parallel->gather_tokens(pass.runtime, std::exchange(x, Tensor()), "column input again");
  }
  PendingTensor dx;
  if (wants_input_gradient) {
    dx = parallel->copy_to_backward(pass.runtime, input_gradient(pass, layers, /*drop=*/false),
                                    layer);
  } else {
    parallel->end_region(layer);
  }
  if (gathers_later) {
    pass.later->push({.kind = WeightGradient::Kind::gather, .x = std::exchange(x, Tensor())});
  } else {
    x = all_x.take();
  }
  finish_columns(pass, layers, x, /*drop=*/true);
  x = {};
  return dx.take();
}

Tensor apply_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& x,
                        const char* layer) {
  if (pass.parallel.tensor == nullptr) {
    Tensor y = has_bias ? apply_linear_with_bias(pass, k, x) : apply_linear(pass, k, x);
    round_shared_sum(pass.runtime, y, SumOver::tensor_ranks);
    if (has_bias) round_shared_sum(pass.runtime, y, SumOver::bias);
    return y;
  }
  Tensor y = pass.parallel.tensor->reduce_from(pass.runtime, apply_linear(pass, k, x), layer);
  if (has_bias) add_bias(pass.runtime, pass.weight(k + 1), y);
  return y;
}

Tensor backward_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& dy, Tensor x,
                           const char* layer) {
  if (has_bias) finish_bias(pass, k + 1, dy);  // For this rank's tokens.
  Tensor all_dy = dy;
  if (pass.parallel.tensor != nullptr) {
    all_dy =
        pass.parallel.tensor->reduce_from_backward(pass.runtime, dy, whole_shape(pass, dy), layer);
  }
  finish_linear(pass, k, all_dy, x);
  x = {};
  return linear_backward_input(pass.runtime, all_dy, pass.weight(k));
}

void apply_dropout(const Pass& pass, const char* branch, const Tensor& y) {
  dropout_forward(pass.runtime, pass.dropout, {pass.block, branch}, first_token(pass, y), y);
}

Tensor backward_dropout(const Pass& pass, const char* branch, const Tensor& dy) {
  return dropout_backward(pass.runtime, pass.dropout, {pass.block, branch}, first_token(pass, dy),
                          dy);
}

}  // namespace shardsim
