#include "strategies/model/embedding.hpp"

#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::int64_t token_at(const Tensor& tokens, std::int64_t index, std::int64_t vocab_size) {
  const auto token = static_cast<std::int64_t>(tokens.get(index));
  if (token >= 0 && token < vocab_size) return token;
  throw UsageError("E0612",
                   "token " + std::to_string(token) + " at position " + std::to_string(index) +
                       " is outside a vocabulary of " + std::to_string(vocab_size),
                   "pass tokens from 0 to vocab_size - 1, or a larger vocab_size");
}

}  // namespace

Tensor token_embedding_forward(Runtime& runtime, const Tensor& tokens, const Tensor& weight) {
  const std::int64_t h = weight.shape()[1];
  Tensor y = runtime.allocate(MemoryCategory::activations,
                              {tokens.shape()[0], tokens.shape()[1], h}, weight.dtype());
  const std::int64_t bytes = tokens.num_bytes() + 2 * y.num_bytes();
  runtime.compute(memory_op("token_embedding", weight.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < tokens.numel(); ++row) {
      const std::int64_t token = token_at(tokens, row, weight.shape()[0]);
      for (std::int64_t i = 0; i < h; ++i) y.set(row * h + i, weight.get(token * h + i));
    }
  });
  return y;
}

void token_embedding_backward(Runtime& runtime, const Tensor& tokens, const Tensor& dy,
                              const Tensor& weight_gradient) {
  const std::int64_t h = last_dim(dy);
  require_size("token embedding backward", "width of the gradient", last_dim(weight_gradient), h);
  const std::int64_t bytes =
      tokens.num_bytes() + dy.num_bytes() + 2 * dy.numel() * size_of(weight_gradient.dtype());
  runtime.compute(memory_op("token_embedding_backward", dy.dtype(), bytes), [&] {
    // A token may occur often: its rows are summed in double and rounded once.
    std::vector<double> sum(static_cast<std::size_t>(weight_gradient.numel()));
    const std::vector<double> values = values_of(dy);
    for (std::int64_t row = 0; row < tokens.numel(); ++row) {
      const std::int64_t token = token_at(tokens, row, num_rows(weight_gradient));
      for (std::int64_t i = 0; i < h; ++i) {
        sum[static_cast<std::size_t>(token * h + i)] +=
            values[static_cast<std::size_t>(row * h + i)];
      }
    }
    add_values(weight_gradient, sum);
  });
}

void position_embedding_forward(Runtime& runtime, const Tensor& weight, const Tensor& y) {
  const std::int64_t positions = y.shape()[1] * y.shape()[2];  // Elements of rows [0, s).
  const Tensor rows = weight.view(0, {positions});
  const std::int64_t bytes = rows.num_bytes() + 2 * y.num_bytes();
  runtime.compute(memory_op("position_embedding", y.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.set(i, y.get(i) + rows.get(i % positions));
  });
}

void position_embedding_backward(Runtime& runtime, const Tensor& dy,
                                 const Tensor& weight_gradient) {
  const std::int64_t positions = dy.shape()[1] * dy.shape()[2];
  const Tensor rows = weight_gradient.view(0, {positions});
  const std::int64_t bytes = dy.num_bytes() + 2 * rows.num_bytes();
  runtime.compute(memory_op("position_embedding_backward", dy.dtype(), bytes), [&] {
    std::vector<double> sum(static_cast<std::size_t>(positions));
    for (std::int64_t i = 0; i < dy.numel(); ++i) {
      sum[static_cast<std::size_t>(i % positions)] += dy.get(i);
    }
    add_values(rows, sum);
  });
}

}  // namespace shardsim
