#include "strategies/model/weight_gradient.hpp"

#include <utility>

#include "strategies/model/expert_rows.hpp"
#include "strategies/model/linear.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

Tensor all_tokens(const ModelContext& context, const Tensor& x, const char* label) {
  if (context.parallel.tensor == nullptr) return x;
  return context.parallel.tensor->gather_tokens(context.runtime, x, label).take();
}

void add_gradient(const ModelContext& context, const WeightGradient& work, const Tensor& x) {
  using Kind = WeightGradient::Kind;
  Runtime& runtime = context.runtime;
  // Read after the switch has chosen, since no gradient belongs to what only gathers.
  Tensor apart;
  const auto gradient = [&] {
    Tensor sum = context.gradient_of(work.parameter);
    apart = runtime.occupy(MemoryCategory::grads,
                           static_cast<double>(sum.numel()) * context.apart_gradient_bytes);
    return sum;
  };
  if (work.low.recipe != ScalingRecipe::none) {
    return low_backward_weight(runtime, work.low, work.dy, x, gradient());
  }
  switch (work.kind) {
    case Kind::linear:
      return linear_backward_weight(runtime, work.dy, x, gradient());
    case Kind::bias:
      return linear_backward_bias(runtime, work.dy, gradient());
    case Kind::tokens: {
      const Tensor dy = all_tokens(context, work.dy, "embedding gradient");
      return token_embedding_backward(runtime, x, dy, gradient(), work.vocab);
    }
    case Kind::positions:
      return position_embedding_backward(runtime, work.dy, gradient(), work.rows);
    case Kind::sum:
      return add_in_place(runtime, work.dy, gradient());
    case Kind::gather:
      return;
    case Kind::grouped:
      return grouped_backward_weight(runtime, work.dy, x, work.sizes, gradient());
    case Kind::grouped_bias:
      return grouped_backward_bias(runtime, work.dy, work.sizes, gradient());
  }
}

}  // namespace

void WeightGradientQueue::run(const ModelContext& context) {
  Tensor gathered;
  for (WeightGradient& place : waiting_) {
    // Moved out, so that its tensors go as soon as they have been used.
    const WeightGradient work = std::exchange(place, WeightGradient());
    if (work.kind == WeightGradient::Kind::gather) {
      gathered = {};
      gathered = all_tokens(context, work.x, "column input again");
      continue;
    }
    if (work.x.defined() || work.kind == WeightGradient::Kind::sum) gathered = {};
    add_gradient(context, work, gathered.defined() ? gathered : work.x);
    if (work.is_last) context.report_gradient(work.parameter);
  }
  waiting_.clear();
}

void add_weight_gradient(const ModelContext& context, WeightGradient work) {
  if (context.later != nullptr) return context.later->push(std::move(work));
  add_gradient(context, work, work.x);
  if (work.is_last) context.report_gradient(work.parameter);
}

}  // namespace shardsim
