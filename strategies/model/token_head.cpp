#include "strategies/model/token_head.hpp"

#include <utility>

#include "strategies/model/activation.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

constexpr const char* kHead = "head";  // Name in errors.

}  // namespace

// x [b, s, h] -> logits [b, s, v] -> loss [1]
Tensor TokenHead::forward(const Pass& pass, int weight, const VocabPart& part, const Tensor& x,
                          const Tensor& targets, Kept& kept) const {
  Runtime& runtime = pass.runtime;
  kept.logits = linear_forward(runtime, enter_region(pass, x, kHead), pass.weight(weight), {});
  if (form_.scale != 1.0) scale_in_place(runtime, kept.logits, form_.scale);
  if (form_.cap > 0.0) soft_cap_forward(runtime, kept.logits, form_.cap);
  const auto count = static_cast<double>(kept.logits.numel());
  kept.beside = runtime.occupy(MemoryCategory::activations, count * memory_.loss_kept_bytes);
  const Tensor beside =
      runtime.occupy(MemoryCategory::activations, count * memory_.loss_forward_bytes);
  CrossEntropyOutput out;
  if (pass.parallel.tensor == nullptr) {
    out = cross_entropy_forward(runtime, kept.logits, targets);
  } else {
    pass.parallel.tensor->end_region(kHead);
    out = vocab_parallel_cross_entropy_forward(runtime, *pass.parallel.tensor, kept.logits, targets,
                                               part);
  }
  kept.log_sum_exp = std::move(out.log_sum_exp);
  return std::move(out.loss);
}

Tensor TokenHead::backward(const Pass& pass, int weight, const VocabPart& part, Tensor x,
                           const Tokens& tokens, Kept& kept) const {
  Runtime& runtime = pass.runtime;
  const auto count = static_cast<double>(kept.logits.numel());
  Tensor beside = runtime.occupy(MemoryCategory::activations, count * memory_.loss_backward_bytes);
  // Logits are their gradient from here on.
  cross_entropy_backward(runtime, kept.logits, tokens.targets, kept.log_sum_exp, tokens.scale, part,
                         form_);
  beside = kept.log_sum_exp = kept.beside = {};
  // The sums over a vocabulary's shards are statistics.
  const DType dtype = kept.logits.dtype();
  if (statistics_dtype(dtype) == dtype) {
    round_shared_sum(runtime, kept.logits, SumOver::tensor_ranks);
  }
  if (pass.parallel.tensor != nullptr) pass.parallel.tensor->begin_region(kHead);
  ColumnLinear reader{.k = weight, .is_last = tokens.is_last, .dy = std::move(kept.logits)};
  return backward_columns(pass, {&reader, 1}, std::move(x), kHead);
}

}  // namespace shardsim
