#include "strategies/model/loss.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// The largest is taken out so that exp cannot overflow.
double log_sum_exp_of(std::span<const double> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const double value : row) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

}  // namespace

std::int64_t target_at(const Tensor& targets, std::int64_t row, std::int64_t num_classes) {
  const auto target = static_cast<std::int64_t>(targets.get(row));
  if (target == kIgnoredTarget || (target >= 0 && target < num_classes)) return target;
  throw UsageError(
      "E0613",
      concat("target ", target, " of row ", row, " is neither a class below ", num_classes, " nor ",
             kIgnoredTarget),
      concat("pass class numbers from 0, or ", kIgnoredTarget, " for a target the loss ignores"));
}

CrossEntropyOutput cross_entropy_forward(Runtime& runtime, const Tensor& logits,
                                         const Tensor& targets) {
  const std::int64_t rows = num_rows(logits);
  const std::int64_t v = last_dim(logits);
  require_size("cross entropy", "number of targets", targets.numel(), rows);
  CrossEntropyOutput out;
  out.loss = new_activation(runtime, Shape{1}, DType::fp64);
  out.log_sum_exp = new_activation(runtime, Shape{rows}, statistics_dtype(logits.dtype()));
  const std::int64_t bytes =
      logits.num_bytes() + targets.num_bytes() + out.log_sum_exp.num_bytes() + out.loss.num_bytes();
  const KernelFamily family = KernelFamily::cross_entropy;
  runtime.compute(memory_op("cross_entropy", logits.dtype(), bytes, family), [&] {
    const std::vector<double> values = values_of(logits);
    double loss = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<const double> logit(values.data() + row * v, to_size(v));
      const double log_sum_exp = log_sum_exp_of(logit);
      out.log_sum_exp.set(row, log_sum_exp);
      const std::int64_t target = target_at(targets, row, v);
      if (target != kIgnoredTarget) loss += log_sum_exp - logit[to_size(target)];
    }
    out.loss.set(0, loss);
  });
  return out;
}

void cross_entropy_backward(Runtime& runtime, const Tensor& logits, const Tensor& targets,
                            const Tensor& log_sum_exp, double scale, const VocabPart& part,
                            const LogitForm& form) {
  const std::int64_t rows = num_rows(logits);
  const std::int64_t columns = last_dim(logits);
  const std::int64_t bytes = 2 * logits.num_bytes() + targets.num_bytes() + log_sum_exp.num_bytes();
  const KernelFamily family = KernelFamily::cross_entropy_backward;
  runtime.compute(memory_op("cross_entropy_backward", logits.dtype(), bytes, family), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t target = target_at(targets, row, part.whole);
      const double normaliser = log_sum_exp.get(row);
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t at = row * columns + i;
        const bool counts = target != kIgnoredTarget && i < part.count;
        const double softmax = counts ? std::exp(logits.get(at) - normaliser) : 0.0;
        const double slope = softmax - (part.first + i == target ? 1.0 : 0.0);
        const double capped = form.cap > 0.0 ? logits.get(at) / form.cap : 0.0;
        const double inner = slope * (1.0 - capped * capped) * scale;
        logits.set(at, counts ? inner * form.scale : 0.0);
      }
    }
  });
}

Tensor squared_error_forward(Runtime& runtime, const Tensor& y, const Tensor& targets,
                             const Tensor& mask) {
  const std::int64_t n = last_dim(y);
  require_size("squared error", "number of targets", targets.numel(), y.numel());
  require_size("squared error", "size of the mask", mask.numel(), num_rows(y));
  Tensor loss = new_activation(runtime, Shape{1}, DType::fp64);
  const std::int64_t bytes =
      y.num_bytes() + targets.num_bytes() + mask.num_bytes() + loss.num_bytes();
  runtime.compute(memory_op("squared_error", y.dtype(), bytes), [&] {
    double sum = 0.0;
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const double difference = y.get(i) - targets.get(i);
      sum += mask.get(i / n) * difference * difference;
    }
    loss.set(0, 0.5 * sum);
  });
  return loss;
}

void squared_error_backward(Runtime& runtime, const Tensor& y, const Tensor& targets,
                            const Tensor& mask, double scale) {
  const std::int64_t n = last_dim(y);
  const std::int64_t bytes = 2 * y.num_bytes() + targets.num_bytes() + mask.num_bytes();
  runtime.compute(memory_op("squared_error_backward", y.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      y.set(i, mask.get(i / n) * (y.get(i) - targets.get(i)) * scale);
    }
  });
}

}  // namespace shardsim
