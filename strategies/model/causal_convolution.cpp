#include "strategies/model/causal_convolution.hpp"

#include <algorithm>
#include <vector>

#include "strategies/model/activation.hpp"

namespace shardsim {

namespace {

void require_convolution(const CausalConvolution& convolution, const Columns& x) {
  const char* const layer = "causal convolution";
  const std::int64_t rows = num_rows(x.tensor);
  require_columns(layer, "number of elements of x", x, rows, convolution.weight.shape()[0]);
  require_size(layer, "remainder of the rows by the positions of a sample",
               rows % convolution.seq_len, 0);
  if (convolution.bias.defined()) {
    require_size(layer, "size of the bias", convolution.bias.numel(), x.count);
  }
}

std::int64_t bytes_of_parameters(const CausalConvolution& convolution) {
  return convolution.weight.num_bytes() +
         (convolution.bias.defined() ? convolution.bias.num_bytes() : 0);
}

// One channel of one sample.
struct Channel {
  const CausalConvolution& convolution;
  const Columns& x;
  std::int64_t first_row;
  std::int64_t channel;

  [[nodiscard]] std::int64_t width() const { return last_dim(convolution.weight); }
  [[nodiscard]] double weight(std::int64_t j) const {
    return convolution.weight.get(channel * width() + j);
  }
  // Position t - w + 1 + j, or a negative number ahead of the sample.
  [[nodiscard]] std::int64_t source(std::int64_t t, std::int64_t j) const {
    return t - width() + 1 + j;
  }
  // SiLU of this is y at position t.
  [[nodiscard]] double sum(std::int64_t t) const {
    double sum = convolution.bias.defined() ? convolution.bias.get(channel) : 0.0;
    for (std::int64_t j = std::max<std::int64_t>(0, width() - 1 - t); j < width(); ++j) {
      sum += weight(j) * x.get(first_row + source(t, j), channel);
    }
    return sum;
  }
};

// Calls `work` with every channel of every sample.
template <class Work>
void for_each_channel(const CausalConvolution& convolution, const Columns& x, Work&& work) {
  for (std::int64_t row = 0; row < num_rows(x.tensor); row += convolution.seq_len) {
    for (std::int64_t i = 0; i < x.count; ++i) work(Channel{convolution, x, row, i});
  }
}

}  // namespace

Tensor causal_convolution_forward(Runtime& runtime, const CausalConvolution& convolution,
                                  const Columns& x) {
  require_convolution(convolution, x);
  Tensor y = new_activation(runtime, with_last(x.tensor.shape(), x.count), x.dtype());
  const std::int64_t bytes = x.num_bytes() + y.num_bytes() + bytes_of_parameters(convolution);
  runtime.compute(memory_op("causal_convolution", x.dtype(), bytes), [&] {
    for_each_channel(convolution, x, [&](const Channel& channel) {
      for (std::int64_t t = 0; t < convolution.seq_len; ++t) {
        y.set((channel.first_row + t) * x.count + channel.channel, silu(channel.sum(t)));
      }
    });
  });
  return y;
}

void causal_convolution_backward(Runtime& runtime, const CausalConvolution& convolution,
                                 const Columns& x, const Tensor& dy,
                                 const CausalConvolutionGradient& gradient) {
  require_convolution(convolution, x);
  const char* const layer = "causal convolution backward";
  const bool has_bias = convolution.bias.defined();
  require_size(layer, "number of elements of dy", dy.numel(), num_rows(x.tensor) * x.count);
  require_columns(layer, "number of elements of dx", gradient.x, num_rows(x.tensor), x.count);
  require_size(layer, "number of elements of the weight's gradient", gradient.weight.numel(),
               convolution.weight.numel());
  std::int64_t bytes = x.num_bytes() + dy.num_bytes() + gradient.x.num_bytes() +
                       bytes_of_parameters(convolution) + 2 * gradient.weight.num_bytes();
  if (has_bias) {
    require_size(layer, "size of the bias's gradient", gradient.bias.numel(), x.count);
    bytes += 2 * gradient.bias.num_bytes();
  }
  runtime.compute(memory_op("causal_convolution_backward", x.dtype(), bytes), [&] {
    const std::int64_t w = last_dim(convolution.weight);
    std::vector<double> dweight(to_size(convolution.weight.numel()));
    std::vector<double> dbias(to_size(x.count));
    for_each_channel(convolution, x, [&](const Channel& channel) {
      std::vector<double> dx(to_size(convolution.seq_len));
      for (std::int64_t t = 0; t < convolution.seq_len; ++t) {
        const double d = dy.get((channel.first_row + t) * x.count + channel.channel) *
                         silu_slope(channel.sum(t));
        dbias[to_size(channel.channel)] += d;
        for (std::int64_t j = std::max<std::int64_t>(0, w - 1 - t); j < w; ++j) {
          const std::int64_t from = channel.source(t, j);
          dx[to_size(from)] += d * channel.weight(j);
          dweight[to_size(channel.channel * w + j)] +=
              d * x.get(channel.first_row + from, channel.channel);
        }
      }
      for (std::int64_t t = 0; t < convolution.seq_len; ++t) {
        gradient.x.set(channel.first_row + t, channel.channel, dx[to_size(t)]);
      }
    });
    add_values(gradient.weight, dweight);
    if (has_bias) add_values(gradient.bias, dbias);
  });
}

}  // namespace shardsim
