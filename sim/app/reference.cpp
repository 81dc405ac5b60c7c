#include "sim/app/reference.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/runtime.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

class WholeParameters final : public Parameters {
 public:
  WholeParameters(Runtime& runtime, const SyncPlan& plan) : runtime_(runtime), plan_(plan) {
    for (const ParameterSpec& spec : plan.model->parameters()) {
      const auto make = [&](DType dtype) {
        return runtime.allocate(MemoryCategory::params, spec.shape, dtype);
      };
      weights_.push_back(make(plan.weight_dtype));
      gradients_.push_back(make(plan.gradient_dtype));
      masters_.push_back(plan.master_dtype == plan.weight_dtype ? weights_.back()
                                                                : make(plan.master_dtype));
      initialize(spec, 0, plan.seed, 0, weights_.back().flat());
      initialize(spec, 0, plan.seed, 0, masters_.back().flat());
      states_.emplace_back();
      for (std::size_t i = 0; i < plan.optimizer->state_names().size(); ++i) {
        states_.back().push_back(make(plan.master_dtype).flat());
      }
    }
  }

  Tensor weight(int index) override { return weights_[static_cast<std::size_t>(index)]; }
  Tensor gradient(int index) override { return gradients_[static_cast<std::size_t>(index)]; }
  void gradient_ready(int) override {}

  void zero_gradients() {
    for (const Tensor& gradient : gradients_) {
      for (std::int64_t i = 0; i < gradient.numel(); ++i) gradient.set(i, 0.0);
    }
  }

  [[nodiscard]] double norm_squared() const {
    double sum = 0.0;
    for (const Tensor& gradient : gradients_) {
      for (const double value : values_of(gradient)) sum += value * value;
    }
    return sum;
  }

  [[nodiscard]] bool overflowed() const {
    const auto is_bad = [](double value) { return !std::isfinite(value); };
    return std::any_of(gradients_.begin(), gradients_.end(), [&](const Tensor& gradient) {
      const std::vector<double> values = values_of(gradient);
      return std::any_of(values.begin(), values.end(), is_bad);
    });
  }

  void optimize(double scale, std::int64_t step) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      plan_.optimizer->step(runtime_, masters_[i].flat(), gradients_[i].flat(), states_[i], scale,
                            step);
      if (plan_.master_dtype != plan_.weight_dtype) store(weights_[i], values_of(masters_[i]));
    }
  }

  void record_gradients(ReferenceStep& step) const {
    for (const Tensor& gradient : gradients_) {
      step.kinds["gradient"].push_back(values_of(gradient));
    }
  }
  void record_state(ReferenceStep& step) const {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      step.kinds["parameter"].push_back(values_of(weights_[i]));
      if (plan_.master_dtype != plan_.weight_dtype) {
        step.kinds["master"].push_back(values_of(masters_[i]));
      }
      for (std::size_t k = 0; k < states_[i].size(); ++k) {
        step.kinds[std::string(plan_.optimizer->state_names()[k])].push_back(
            values_of(states_[i][k]));
      }
    }
  }

 private:
  Runtime& runtime_;
  const SyncPlan& plan_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> masters_;
  std::vector<Tensor> gradients_;
  std::vector<std::vector<Tensor>> states_;
};

// Sum of the losses of `batch`; leaves its gradients in `parameters`. A loop of its own, apart from
// strategies/model/module_chain.hpp on purpose: what the oracle shares with the training it judges,
// it cannot find wrong.
double forward_backward(const Model& model, Runtime& runtime, Parameters& parameters,
                        const Batch& batch) {
  std::vector<Saved> saved(static_cast<std::size_t>(model.num_modules()));
  Tensor activation;
  for (int module = 0; module < model.num_modules(); ++module) {
    activation = model.forward(module, {runtime, parameters}, activation, batch,
                               saved[static_cast<std::size_t>(module)]);
  }
  const double loss = activation.get(0);
  Tensor gradient;
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    gradient = model.backward(module, {runtime, parameters}, gradient, batch,
                              saved[static_cast<std::size_t>(module)]);
  }
  return loss;
}

}  // namespace

std::vector<ReferenceStep> train_reference(const SyncPlan& sync, const TrainingPlan& plan,
                                           std::int64_t global_batch,
                                           const std::vector<ReferenceStep>* decided) {
  LocalRuntime runtime;
  const Model& model = *sync.model;
  WholeParameters parameters(runtime, sync);
  LossScaleState scale = initial_state(plan.loss_scaling);
  std::int64_t updates = 0;
  std::vector<ReferenceStep> steps;
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    const std::int64_t first = step * global_batch;
    Batch batch = model.make_batch(runtime, plan.seed, first, global_batch, plan.ignore_fraction);
    const auto targets = static_cast<double>(
        model.count_targets(plan.seed, first, global_batch, plan.ignore_fraction));
    batch.loss_scale = targets > 0.0 ? scale.scale * (1.0 / targets) : 0.0;
    parameters.zero_gradients();
    ReferenceStep record;
    record.loss = forward_backward(model, runtime, parameters, batch);
    if (targets > 0.0) record.loss /= targets;
    record.skipped = decided != nullptr ? (*decided)[static_cast<std::size_t>(step)].skipped
                                        : plan.loss_scaling.acts() && parameters.overflowed();
    if (!record.skipped) {
      parameters.record_gradients(record);
      const double unscaled = 1.0 / scale.scale;
      const double norm_squared = parameters.norm_squared() * unscaled * unscaled;
      const double clip =
          plan.max_grad_norm > 0.0 ? clip_coefficient(norm_squared, plan.max_grad_norm) : 1.0;
      parameters.optimize(unscaled * clip, ++updates);
    }
    scale = next_state(plan.loss_scaling, scale, record.skipped);
    record.next_scale = scale.scale;
    parameters.record_state(record);
    steps.push_back(std::move(record));
  }
  return steps;
}

std::string_view kind_name(const StatePiece& piece) {
  switch (piece.kind) {
    case StateKind::gradient:
      return "gradient";
    case StateKind::parameter:
      return "parameter";
    case StateKind::optimizer_state:
      return piece.state;
  }
  return {};
}

}  // namespace shardsim
