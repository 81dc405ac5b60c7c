#pragma once

#include "strategies/model/embedding.hpp"
#include "strategies/model/layer.hpp"

// Losses return their SUM over the rows that count, [1] fp64. Dividing is the caller's business: it
// alone knows how many rows the whole global batch has, and passes 1 / that as `scale`.
namespace shardsim {

/// A row with this target does not count.
inline constexpr std::int64_t kIgnoredTarget = -1;

/// The class that row `row` should have, or kIgnoredTarget. Throws UsageError if it is neither.
[[nodiscard]] std::int64_t target_at(const Tensor& targets, std::int64_t row,
                                     std::int64_t num_classes);

/// From the head's products to the logits: a factor, and then soft_cap_forward.
struct LogitForm {
  double scale = 1.0;
  double cap = 0.0;  ///< 0: none.
};

struct CrossEntropyOutput {
  Tensor loss;         ///< [1] fp64
  Tensor log_sum_exp;  ///< [rows]
};

/// Sum of log_sum_exp(logits) - logits[target]. logits [..., v], targets int32 with one per row.
[[nodiscard]] CrossEntropyOutput cross_entropy_forward(Runtime& runtime, const Tensor& logits,
                                                       const Tensor& targets);
/// In place: logits become their gradient, (softmax - one at the target) * scale, 0 in rows that
/// do not count. So the loss costs no second tensor of that size, often the largest of a step.
/// The columns are those of some classes; columns that only fill up get 0. Logits that have a form
/// become the gradient of what they were before it.
void cross_entropy_backward(Runtime& runtime, const Tensor& logits, const Tensor& targets,
                            const Tensor& log_sum_exp, double scale, const VocabPart& part,
                            const LogitForm& form = {});

/// Half the sum of squares of y - targets in rows where mask is 1. y and targets [b, n], mask [b].
[[nodiscard]] Tensor squared_error_forward(Runtime& runtime, const Tensor& y, const Tensor& targets,
                                           const Tensor& mask);
/// In place: y becomes its gradient, mask * (y - targets) * scale.
void squared_error_backward(Runtime& runtime, const Tensor& y, const Tensor& targets,
                            const Tensor& mask, double scale);

}  // namespace shardsim
