#include "strategies/model/pass.hpp"

#include <array>
#include <span>
#include <utility>
#include <vector>

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

}  // namespace shardsim
