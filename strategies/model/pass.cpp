#include "strategies/model/pass.hpp"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "strategies/model/overlapped_linear.hpp"
#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

// Tensor to which a norm's backward adds gradients that are needed later. They are a cheap
// by-product of dx. They stay sums in fp64, so that adding them later rounds as adding them at once
// would.
Tensor sum_for_later(const Pass& pass, const Tensor& weight) {
  return new_activation(pass.runtime, weight.shape(), DType::fp64);
}
// Whether backward leaves sums and gathers, too.
bool leaves_all(const Pass& pass) {
  return pass.later != nullptr && pass.later->left() != LeftWork::products;
}

Tensor row_of(const Tensor& tensor, std::int64_t row, std::int64_t width) {
  return tensor.view(row * width, {1, width});
}

void finish_later(const Pass& pass, int k, WeightGradient::Kind kind, Tensor dy) {
  pass.later->push({.kind = kind, .parameter = pass.first + k, .dy = std::move(dy)});
}

// Leaves the terms of a norm's gradients, row by row of the weight's size h: [rows, h] in fp64.
void finish_rows_later(const Pass& pass, int k, const NormForm& form, const Tensor& dy,
                       const Tensor& x, const Tensor& weight, const Tensor& statistics) {
  const std::int64_t h = weight.numel();
  const Shape shape{x.numel() / h, h};
  const auto allocate = [&] { return new_activation(pass.runtime, shape, DType::fp64); };
  Tensor bias_terms = form.has_bias ? allocate() : Tensor();
  Tensor weight_terms = allocate();
  const std::int64_t width = form.is_layer ? 2 : 1;  // The mean is only needed by layer norm.
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    static_cast<void>(
        norm_backward(pass.runtime, row_of(dy, row, h), row_of(x, row, h), weight,
                      statistics.view(width * row, {width}), row_of(weight_terms, row, h).flat(),
                      form.has_bias ? row_of(bias_terms, row, h).flat() : Tensor(), form));
  }
  if (form.has_bias) finish_later(pass, k + 1, WeightGradient::Kind::bias, std::move(bias_terms));
  finish_later(pass, k, WeightGradient::Kind::bias, std::move(weight_terms));
}

// Shape of an activation outside of regions, with all its tokens together.
Shape whole_shape(const Pass& pass, const Tensor& x) {
  if (!pass.parallel.tensor->sequence_parallel()) return x.shape();
  const std::int64_t tokens = num_rows(x) * pass.parallel.tensor->size();
  return {tokens / pass.seq_len, pass.seq_len, last_dim(x)};
}

std::int64_t first_token(const Pass& pass, const Tensor& x) {
  return pass.parallel.tensor == nullptr ? 0 : pass.parallel.tensor->first_token(num_rows(x));
}

// Each layer's dy is dropped but for its bias.
void make_gradients(const Pass& pass, std::span<ColumnLinear> layers, bool wants_input_gradient) {
  for (ColumnLinear& layer : layers) {
    layer.made = linear_gradient(pass, layer.dy, {layer.k, Held::channels});
    if (!layer.has_bias) layer.dy = {};
    if (!wants_input_gradient) layer.made.rows = {};
  }
}

Tensor input_gradient(const Pass& pass, std::span<ColumnLinear> layers) {
  Tensor dx;
  for (ColumnLinear& layer : layers) {
    dx = backward_input(pass, layer.k, layer.made.rows, std::move(dx));
    layer.made.rows = {};
  }
  return dx;
}

// Backward reports parameters from the last to the first.
void finish_columns(const Pass& pass, std::span<ColumnLinear> layers, const Tensor& x) {
  for (std::size_t left = layers.size(); left > 0; --left) {
    ColumnLinear& layer = layers[left - 1];
    if (layer.has_bias) finish_bias(pass, layer.k + 1, layer.dy);
    layer.dy = {};
    finish_linear(pass, layer.k, layer.made, x, layer.is_last);
    layer.made.columns = {};
  }
}

// Whether apply_linear() of x is to wait for its tokens.
bool is_arriving(const Pass& pass, const Tensor& x) {
  return overlaps(pass) && pass.parallel.tensor->bringing(x) != nullptr;
}

}  // namespace

LinearGradient gather_gradient(const Pass& pass, int k, const Tensor& dy, const char* layer) {
  TensorParallel* const parallel = pass.parallel.tensor;
  const bool gathers = parallel != nullptr && parallel->sequence_parallel();
  if (pass.low == nullptr || !gathers) {
    return linear_gradient(pass, leave_region_backward(pass, dy, layer), {k, Held::whole});
  }
  const bool has_blocks = row_of(pass.low->recipe).block > 0;
  QuantizedTensor own = quantized(pass, dy, has_blocks ? Copies::both : Copies::rows,
                                  Operand::gradient, {k, Held::tokens});
  LinearGradient all{leave_region_backward(pass, own.rows, layer), {}, last_dim(dy)};
  own.rows = {};
  if (has_blocks) {
    all.columns = parallel->gather_tokens(pass.runtime, own.columns, "row output gradient").take();
  } else {
    all.columns = pass.low->needs_transposes ? transposed(pass.runtime, all.rows) : all.rows;
  }
  return all;
}

Tensor apply_linear(const Pass& pass, int k, const Tensor& x) {
  if (is_arriving(pass, x)) return apply_arriving(pass, k, /*has_bias=*/false, x);
  if (!is_quantized(x)) return linear_forward(pass.runtime, x, pass.weight(k), {});
  const LinearWeight own = quantized_weight(pass, k, Copies::rows);
  return low_forward(pass.runtime, own.product, x, own.made.rows, {}, own.weight.dtype());
}

Tensor apply_linear_with_bias(const Pass& pass, int k, const Tensor& x) {
  if (is_arriving(pass, x)) return apply_arriving(pass, k, /*has_bias=*/true, x);
  // One after the other: fetching may communicate, so its order must not be the compiler's choice.
  if (!is_quantized(x)) {
    const Tensor weight = pass.weight(k);
    const Tensor bias = pass.weight(k + 1);
    return linear_forward(pass.runtime, x, weight, bias);
  }
  const LinearWeight own = quantized_weight(pass, k, Copies::rows);
  const Tensor bias = pass.weight(k + 1);
  return low_forward(pass.runtime, own.product, x, own.made.rows, bias, own.weight.dtype());
}

Tensor backward_input(const Pass& pass, int k, const Tensor& dy, Tensor dx) {
  if (!is_quantized(dy)) {
    return linear_backward_input(pass.runtime, dy, pass.weight(k), std::move(dx));
  }
  const LinearWeight own = quantized_weight(pass, k, Copies::columns);
  return low_backward_input(pass.runtime, own.product, dy, own.made.columns, own.weight.dtype(),
                            std::move(dx));
}

void finish_linear(const Pass& pass, int k, const LinearGradient& dy, const Tensor& x,
                   bool is_last) {
  WeightGradient work{.parameter = pass.first + k, .is_last = is_last, .dy = dy.columns, .x = x};
  if (is_quantized(dy.columns)) work.low = {.recipe = pass.low->recipe, .n = dy.outputs};
  add_weight_gradient(pass, std::move(work));
}

Tensor gradient_of_sum(const Pass& pass, int k, const Tensor& weight) {
  return leaves_all(pass) ? sum_for_later(pass, weight) : pass.gradient(k);
}

void finish_sum(const Pass& pass, int k, Tensor sum) {
  if (leaves_all(pass)) {
    return finish_later(pass, k, WeightGradient::Kind::sum, std::move(sum));
  }
  sum = {};
  pass.ready(k);
}

Tensor finish_norm(const Pass& pass, int k, const NormForm& form, const Tensor& dy, const Tensor& x,
                   const Tensor& statistics) {
  Tensor dx;
  if (leaves_all(pass)) {
    const Tensor weight = pass.weight(k);
    Tensor bias_sum = form.has_bias ? sum_for_later(pass, weight) : Tensor();
    Tensor weight_sum = sum_for_later(pass, weight);
    dx = norm_backward(pass.runtime, dy, x, weight, statistics, weight_sum, bias_sum, form);
    if (pass.later->left() == LeftWork::terms) {
      finish_rows_later(pass, k, form, dy, x, weight, statistics);
      return dx;
    }
    if (form.has_bias) finish_later(pass, k + 1, WeightGradient::Kind::sum, std::move(bias_sum));
    finish_later(pass, k, WeightGradient::Kind::sum, std::move(weight_sum));
    return dx;
  }
  {  // Nothing holds on to a gradient that has been reported: its memory may be about to be freed.
    const Tensor weight = pass.weight(k);
    const Tensor bias_gradient = form.has_bias ? pass.gradient(k + 1) : Tensor();
    const Tensor weight_gradient = pass.gradient(k);
    dx = norm_backward(pass.runtime, dy, x, weight, statistics, weight_gradient, bias_gradient,
                       form);
  }
  if (form.has_bias) pass.ready(k + 1);
  pass.ready(k);
  return dx;
}

Tensor enter_region(const Pass& pass, const Tensor& x, const char* layer, RegionInput input) {
  if (pass.parallel.tensor == nullptr) return x;
  return pass.parallel.tensor->copy_to(pass.runtime, x, whole_shape(pass, x), layer, input);
}

Tensor enter_region_by_shard(const Pass& pass, const Tensor& x, const char* layer) {
  if (!overlaps(pass)) return enter_region(pass, x, layer);
  return pass.parallel.tensor->copy_to_by_shard(pass.runtime, x, whole_shape(pass, x), layer);
}

PendingTensor sum_joined_gradient(const Pass& pass, Tensor dx, const char* layer) {
  if (pass.parallel.tensor == nullptr) {
    round_shared_sum(pass.runtime, dx, SumOver::tensor_ranks);
    return PendingTensor(std::move(dx));
  }
  return pass.parallel.tensor->copy_to_backward(pass.runtime, std::move(dx), layer,
                                                RegionInput::joins);
}

Tensor backward_columns(const Pass& pass, std::span<ColumnLinear> layers, Tensor x,
                        const char* layer, bool wants_input_gradient, RegionInput input) {
  TensorParallel* parallel = pass.parallel.tensor;
  make_gradients(pass, layers, wants_input_gradient);
  if (parallel == nullptr) {
    finish_columns(pass, layers, x);
    x = {};
    if (!wants_input_gradient) return {};
    Tensor dx = input_gradient(pass, layers);
    round_shared_sum(pass.runtime, dx, SumOver::tensor_ranks);
    return dx;
  }
  // Posted first, so that it travels while the input's gradient is computed.
  const bool gathers_later = parallel->sequence_parallel() && leaves_all(pass);
  PendingTensor all_x;
  if (!gathers_later) {
    all_x = parallel->gather_tokens(pass.runtime, std::exchange(x, Tensor()), "column input again");
  }
  PendingTensor dx;
  if (wants_input_gradient) {
    dx = parallel->copy_to_backward(pass.runtime, input_gradient(pass, layers), layer, input);
  } else {
    parallel->end_region(layer);
  }
  if (gathers_later) {
    pass.later->push({.kind = WeightGradient::Kind::gather, .x = std::exchange(x, Tensor())});
  } else {
    x = all_x.take();
  }
  finish_columns(pass, layers, x);
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
  Tensor y = overlaps(pass) ? apply_row_overlapped(pass, k, x, layer)
                            : leave_region(pass, apply_linear(pass, k, x), layer);
  if (has_bias) add_bias(pass.runtime, pass.weight(k + 1), y);
  return y;
}

Tensor backward_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& dy, Tensor x,
                           const char* layer) {
  if (has_bias) finish_bias(pass, k + 1, dy);  // For this rank's tokens.
  if (overlaps(pass)) return backward_row_overlapped(pass, k, dy, std::move(x), layer);
  return backward_row(pass, k, gather_gradient(pass, k, dy, layer), std::move(x));
}

Tensor backward_row(const Pass& pass, int k, const LinearGradient& all_dy, Tensor x) {
  finish_linear(pass, k, all_dy, x);
  x = {};
  return backward_input(pass, k, all_dy.rows);
}

Tensor leave_region(const Pass& pass, Tensor y, const char* layer) {
  if (pass.parallel.tensor != nullptr) {
    return pass.parallel.tensor->reduce_from(pass.runtime, std::move(y), layer);
  }
  round_shared_sum(pass.runtime, y, SumOver::tensor_ranks);
  return y;
}

Tensor leave_region_backward(const Pass& pass, const Tensor& dy, const char* layer) {
  if (pass.parallel.tensor == nullptr) return dy;
  return pass.parallel.tensor->reduce_from_backward(pass.runtime, dy, whole_shape(pass, dy), layer);
}

void apply_dropout(const Pass& pass, const char* branch, const Tensor& y) {
  dropout_forward(pass.runtime, pass.dropout, {pass.block, branch}, first_token(pass, y), y);
}

Tensor backward_dropout(const Pass& pass, const char* branch, const Tensor& dy) {
  return dropout_backward(pass.runtime, pass.dropout, {pass.block, branch}, first_token(pass, dy),
                          dy);
}

}  // namespace shardsim
