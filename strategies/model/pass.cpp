#include "strategies/model/pass.hpp"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

// Tensor to which a norm's backward adds gradients that are needed later. They are a cheap
// by-product of dx. They stay sums in fp64, so that adding them later rounds as adding them at once
// would.
Tensor sum_for_later(const Pass& pass, const Tensor& weight) {
  return pass.runtime.allocate(MemoryCategory::activations, weight.shape(), DType::fp64);
}
Tensor row_of(const Tensor& tensor, std::int64_t row) {
  const std::int64_t width = last_dim(tensor);
  return tensor.view(row * width, {1, width});
}

void finish_later(const Pass& pass, int k, Tensor sum) {
  pass.later->push(
      {.kind = WeightGradient::Kind::sum, .parameter = pass.first + k, .dy = std::move(sum)});
}

// The terms of a norm's gradients, row by row: [rows, h] in fp64. `add_row` adds those of a row.
template <class AddRow>
void finish_rows_later(const Pass& pass, std::span<const int> parameters, const Tensor& x,
                       const AddRow& add_row) {
  const Shape shape{num_rows(x), last_dim(x)};
  std::vector<Tensor> terms;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    terms.push_back(pass.runtime.allocate(MemoryCategory::activations, shape, DType::fp64));
  }
  for (std::int64_t row = 0; row < num_rows(x); ++row) {
    std::vector<Tensor> of_row;
    for (const Tensor& all : terms) of_row.push_back(row_of(all, row));
    add_row(row, of_row);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    pass.later->push({.kind = WeightGradient::Kind::bias,
                      .parameter = pass.first + parameters[i],
                      .dy = std::move(terms[i])});
  }
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

// Whether blocks are merged in the dtype of activations; else in fp32, and rounded once.
bool merges_in(DType dtype) { return statistics_dtype(dtype) == dtype; }

// As round_shared_sum, for heads among others in a tensor.
void round_heads(Runtime& runtime, const Heads& heads, std::int64_t width, SumOver sum) {
  if (StochasticRounding::active() == nullptr) return;
  for (std::int64_t at = heads.first; at < heads.tensor.numel(); at += heads.row_stride) {
    round_shared_sum(runtime, heads.tensor.view(at, {width}), sum);
  }
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
    if (pass.later->keeps_rows()) {
      finish_rows_later(pass, std::array{k + 1, k}, x, [&](std::int64_t row, const auto& terms) {
        static_cast<void>(layer_norm_backward(pass.runtime, row_of(dy, row), row_of(x, row), weight,
                                              statistics.view(2 * row, {2}), terms[1].flat(),
                                              terms[0].flat()));
      });
      return dx;
    }
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
    if (pass.later->keeps_rows()) {
      finish_rows_later(pass, std::array{k}, x, [&](std::int64_t row, const auto& terms) {
        static_cast<void>(rms_norm_backward(pass.runtime, row_of(dy, row), row_of(x, row), weight,
                                            statistics.view(row, {1}), terms[0].flat()));
      });
      return dx;
    }
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

Attended attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                const Heads& v) {
  if (pass.parallel.context != nullptr) {
    return pass.parallel.context->forward(pass.runtime, shape, q, k, v);
  }
  Attended attended{.own = attention_forward(pass.runtime, shape, q, k, v),
                    .exchanged_qkv = {},
                    .exchanged_y = {}};
  if (merges_in(q.tensor.dtype())) {
    round_shared_sum(pass.runtime, attended.own.y, SumOver::key_blocks);
    round_shared_sum(pass.runtime, attended.own.log_sum_exp, SumOver::key_blocks);
  }
  return attended;
}

void backward_attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                     const Heads& v, const Attended& forward, const Tensor& dy, const Heads& dq,
                     const Heads& dk, const Heads& dv) {
  if (pass.parallel.context == nullptr) {
    attention_backward(pass.runtime, shape, q, k, v, forward.own, dy, dq, dk, dv);
    round_heads(pass.runtime, dk, shape.num_groups * shape.head_size, SumOver::query_shares);
    round_heads(pass.runtime, dv, shape.num_groups * shape.head_size, SumOver::query_shares);
    if (merges_in(q.tensor.dtype())) {
      round_heads(pass.runtime, dq, shape.num_heads * shape.head_size, SumOver::key_blocks);
    }
    return;
  }
  pass.parallel.context->backward(pass.runtime, shape, q, k, v, forward, dy, dq, dk, dv);
}

}  // namespace shardsim
