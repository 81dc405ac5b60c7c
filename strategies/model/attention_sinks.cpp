#include "strategies/model/attention_sinks.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace shardsim {

namespace {

// Calls `work` with the index of each row in log_sum_exp, the first of its elements in y, and its
// head. Rows of log_sum_exp are [b, a, s], those of y [b, s, a].
template <class Work>
void for_each_row(const AttentionShape& shape, const AttentionOutput& out, Work&& work) {
  const std::int64_t blocks = out.log_sum_exp.shape()[0];
  const std::int64_t length = out.log_sum_exp.shape()[2];
  const std::int64_t width = shape.value_width();
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      for (std::int64_t row = 0; row < length; ++row) {
        work((block * shape.num_heads + head) * length + row,
             ((block * length + row) * shape.num_heads + head) * width, head);
      }
    }
  }
}

}  // namespace

void add_sinks(Runtime& runtime, const AttentionShape& shape, const Sinks& sinks,
               const AttentionOutput& out) {
  if (!sinks.exist()) return;
  require_size("attention sinks", "number of elements of y", out.y.numel(),
               out.log_sum_exp.numel() * shape.value_width());
  const std::int64_t bytes = 2 * (out.y.num_bytes() + out.log_sum_exp.num_bytes());
  runtime.compute(memory_op("attention_sinks", out.y.dtype(), bytes), [&] {
    for_each_row(shape, out, [&](std::int64_t row, std::int64_t first, std::int64_t head) {
      const double before = out.log_sum_exp.get(row);
      const double sink = sinks.tensor.get(sinks.first + head);
      const double largest = std::max(before, sink);
      const double after =
          largest + std::log(std::exp(before - largest) + std::exp(sink - largest));
      const double factor = std::exp(before - after);
      out.log_sum_exp.set(row, after);
      for (std::int64_t i = 0; i < shape.value_width(); ++i) {
        out.y.set(first + i, out.y.get(first + i) * factor);
      }
    });
  });
}

void sinks_backward(Runtime& runtime, const AttentionShape& shape, const SinkSlopes& slopes,
                    const AttentionOutput& out, const Tensor& dy) {
  const Sinks& sinks = slopes.sinks;
  const Tensor& gradient = slopes.gradient;
  if (!sinks.exist()) return;
  require_size("attention sinks backward", "number of elements of dy", dy.numel(), out.y.numel());
  require_size("attention sinks backward", "number of elements of the gradient", gradient.numel(),
               sinks.tensor.numel());
  const std::int64_t bytes = dy.num_bytes() + out.y.num_bytes() + out.log_sum_exp.num_bytes();
  runtime.compute(memory_op("attention_sinks_backward", dy.dtype(), bytes), [&] {
    std::vector<double> sums(to_size(gradient.numel()));
    for_each_row(shape, out, [&](std::int64_t row, std::int64_t first, std::int64_t head) {
      double product = 0.0;
      for (std::int64_t i = 0; i < shape.value_width(); ++i) {
        product += dy.get(first + i) * out.y.get(first + i);
      }
      const std::int64_t at = sinks.first + head;
      sums[to_size(at)] -= std::exp(sinks.tensor.get(at) - out.log_sum_exp.get(row)) * product;
    });
    add_values(gradient, sums);
  });
}

}  // namespace shardsim
