#include "tests/strategies/priced_model.hpp"

#include <utility>

#include "strategies/model/weight_gradient.hpp"

namespace shardsim::test {

void PricedModel::charge(Runtime& runtime, ActionKind kind, const Later& what,
                         std::int64_t picoseconds) const {
  const std::string& name =
      *names_.insert(to_text(make_action(kind, 0, what.microbatch), what.module)).first;
  runtime.compute({name.c_str(), ComputeKind::matmul, DType::fp64, picoseconds, 0}, [] {});
}

Tensor PricedModel::forward(int module, const ModelContext& context, const Tensor& /*input*/,
                            const Batch& batch, Saved& saved) const {
  Runtime& runtime = context.runtime;
  saved.push_back(runtime.allocate(MemoryCategory::activations, {kSavedBytes / 8}, DType::fp64));
  const StageCosts& cost = costs_[static_cast<std::size_t>(module)];
  charge(runtime, ActionKind::forward, {module, static_cast<int>(batch.first_sample)},
         cost.forward);
  const bool is_last = module == num_modules() - 1;
  return is_last ? runtime.allocate(MemoryCategory::comm, {1}, DType::fp64)
                 : runtime.allocate(MemoryCategory::activations, activation_shape(1), dtype());
}

Tensor PricedModel::backward(int module, const ModelContext& context,
                             const Tensor& /*output_gradient*/, const Batch& batch,
                             Saved& saved) const {
  Runtime& runtime = context.runtime;
  const Later what{module, static_cast<int>(batch.first_sample)};
  const StageCosts& cost = costs_[static_cast<std::size_t>(module)];
  charge(runtime, ActionKind::backward_input, what, cost.backward_input);
  if (context.later == nullptr) {
    charge(runtime, ActionKind::backward_weight, what, cost.backward_weight);
  } else {
    waiting_[context.later] = what;
    // The queue holds the activation until it is run.
    context.later->push({.kind = WeightGradient::Kind::gather, .x = std::move(saved.front())});
  }
  saved.clear();
  if (module == 0) return {};
  return runtime.allocate(MemoryCategory::activations, activation_shape(1), dtype());
}

void PricedModel::run_weight_gradients(WeightGradientQueue& queue,
                                       const ModelContext& context) const {
  const Later what = waiting_.at(&queue);
  waiting_.erase(&queue);
  charge(context.runtime, ActionKind::backward_weight, what,
         costs_[static_cast<std::size_t>(what.module)].backward_weight);
  queue.run(context);
}

Batch PricedModel::make_batch(Runtime&, std::uint64_t, std::int64_t first, std::int64_t, double,
                              const SequencePart&) const {
  return {.first_sample = first};
}

}  // namespace shardsim::test
