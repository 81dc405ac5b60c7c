#include "strategies/model/embedding.hpp"

#include <algorithm>
#include <cmath>
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

// Elements of the position table's rows that an activation's rows are at.
Tensor rows_in_use(const Tensor& table, const Tensor& y, const TokenRows& rows) {
  require_size("position embedding", "width of the table", last_dim(table), last_dim(y));
  const std::int64_t positions = std::min(rows.part.length(rows.seq_len), num_rows(y));
  return table.view(0, {positions * last_dim(y)});
}

// Offset in the table of row `row`'s position.
std::int64_t position_of(const TokenRows& rows, std::int64_t row, std::int64_t width) {
  return rows.part.token_of(rows.first + row, rows.seq_len) % rows.seq_len * width;
}

void rotate(const Tensor& x, const Rotary& rotary, const SequencePart& part, double direction) {
  const std::int64_t own = x.shape()[1];          // Positions of each sample here,
  const std::int64_t seq_len = own * part.parts;  // and in all.
  const std::int64_t heads = last_dim(x) / rotary.head_size;
  for (std::int64_t head = 0; head < num_rows(x) * heads; ++head) {
    const auto position = static_cast<double>(part.position_of(head / heads % own, seq_len));
    for (std::int64_t element = 0; element < rotary.turned; element += 2) {
      const std::int64_t at = head * rotary.head_size + rotary.first + element;
      const double exponent = -static_cast<double>(element) / static_cast<double>(rotary.turned);
      const double angle = direction * position * std::pow(rotary.theta, exponent);
      const double cosine = std::cos(angle);
      const double sine = std::sin(angle);
      const double even = x.get(at);
      const double odd = x.get(at + 1);
      x.set(at, even * cosine - odd * sine);
      x.set(at + 1, even * sine + odd * cosine);
    }
  }
}

// Elements that stay as they are need not be read: heads are turned in place.
std::int64_t turned_bytes(const Tensor& x, const Rotary& rotary) {
  return x.num_bytes() / rotary.head_size * rotary.turned;
}

}  // namespace

Tensor token_embedding_forward(Runtime& runtime, const Tensor& tokens, const Tensor& weight,
                               const VocabPart& part) {
  const std::int64_t h = weight.shape()[1];
  Tensor y = new_activation(runtime, {tokens.shape()[0], tokens.shape()[1], h}, weight.dtype());
  const std::int64_t bytes = tokens.num_bytes() + 2 * y.num_bytes();
  runtime.compute(memory_op("token_embedding", weight.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < tokens.numel(); ++row) {
      const std::int64_t token = token_at(tokens, row, part.whole) - part.first;
      if (token < 0 || token >= part.count) continue;  // y is filled with zeros.
      for (std::int64_t i = 0; i < h; ++i) y.set(row * h + i, weight.get(token * h + i));
    }
  });
  return y;
}

void token_embedding_backward(Runtime& runtime, const Tensor& tokens, const Tensor& dy,
                              const Tensor& weight_gradient, const VocabPart& part) {
  const std::int64_t h = last_dim(dy);
  require_size("token embedding backward", "width of the gradient", last_dim(weight_gradient), h);
  require_size("token embedding backward", "number of rows of dy", num_rows(dy), tokens.numel());
  const std::int64_t bytes =
      tokens.num_bytes() + dy.num_bytes() + 2 * dy.numel() * size_of(weight_gradient.dtype());
  runtime.compute(memory_op("token_embedding_backward", dy.dtype(), bytes), [&] {
    // A token may occur often: its rows are summed in double and rounded once.
    std::vector<double> sum(to_size(weight_gradient.numel()));
    const std::vector<double> values = values_of(dy);
    for (std::int64_t row = 0; row < tokens.numel(); ++row) {
      const std::int64_t token = token_at(tokens, row, part.whole) - part.first;
      if (token < 0 || token >= part.count) continue;
      for (std::int64_t i = 0; i < h; ++i) {
        sum[to_size(token * h + i)] += values[to_size(row * h + i)];
      }
    }
    add_values(weight_gradient, sum);
  });
}

void position_embedding_forward(Runtime& runtime, const Tensor& weight, const Tensor& y,
                                const TokenRows& rows) {
  const std::int64_t h = last_dim(y);
  const std::int64_t bytes = rows_in_use(weight, y, rows).num_bytes() + 2 * y.num_bytes();
  runtime.compute(memory_op("position_embedding", y.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < num_rows(y); ++row) {
      const std::int64_t position = position_of(rows, row, h);
      for (std::int64_t i = 0; i < h; ++i) {
        y.set(row * h + i, y.get(row * h + i) + weight.get(position + i));
      }
    }
  });
}

void position_embedding_backward(Runtime& runtime, const Tensor& dy, const Tensor& weight_gradient,
                                 const TokenRows& rows) {
  const std::int64_t h = last_dim(dy);
  const std::int64_t bytes =
      dy.num_bytes() + 2 * rows_in_use(weight_gradient, dy, rows).num_bytes();
  runtime.compute(memory_op("position_embedding_backward", dy.dtype(), bytes), [&] {
    const Tensor touched = weight_gradient.view(0, {rows.seq_len * h});
    std::vector<double> sum(to_size(touched.numel()));
    for (std::int64_t row = 0; row < num_rows(dy); ++row) {
      const std::int64_t position = position_of(rows, row, h);
      for (std::int64_t i = 0; i < h; ++i) {
        sum[to_size(position + i)] += dy.get(row * h + i);
      }
    }
    add_values(touched, sum);
  });
}

void rotary_forward(Runtime& runtime, const Tensor& x, const Rotary& rotary,
                    const SequencePart& part) {
  require_size("rotary", "remainder of the width by the head size", last_dim(x) % rotary.head_size,
               0);
  runtime.compute(memory_op("rotary", x.dtype(), 2 * turned_bytes(x, rotary), KernelFamily::rotary),
                  [&] { rotate(x, rotary, part, 1.0); });
}

void rotary_backward(Runtime& runtime, const Tensor& dy, const Rotary& rotary,
                     const SequencePart& part) {
  runtime.compute(memory_op("rotary_backward", dy.dtype(), 2 * turned_bytes(dy, rotary),
                            KernelFamily::rotary_backward),
                  [&] { rotate(dy, rotary, part, -1.0); });
}

}  // namespace shardsim
