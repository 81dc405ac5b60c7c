#include "sim/verify/whole_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/kernel/dtype.hpp"

#include "strategies/model/close_calls.hpp"
#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

ReferenceTensors values_of_all(const std::vector<Tensor>& tensors) {
  ReferenceTensors all;
  for (const Tensor& tensor : tensors) all.push_back(values_of(tensor));
  return all;
}

void fill_with_zeros(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, 0.0);
  }
}

void store_all(const std::vector<Tensor>& tensors, const ReferenceTensors& all) {
  for (std::size_t i = 0; i < all.size(); ++i) store(tensors[i], all[i]);
}

}  // namespace

bool quantizes(const Model& model) {
  return std::ranges::any_of(model.parameters(),
                             [](const ParameterSpec& spec) { return spec.low != nullptr; });
}

void add_to(ReferenceTensors& sum, const ReferenceTensors& values) {
  if (sum.empty()) sum = zeros_like(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values[i].size(); ++j) sum[i][j] += values[i][j];
  }
}

ReferenceTensors zeros_like(ReferenceTensors tensors) {
  for (std::vector<double>& values : tensors) std::ranges::fill(values, 0.0);
  return tensors;
}

WholeParameters::WholeParameters(Runtime& runtime, const SyncPlan& plan)
    : runtime_(runtime), plan_(plan), muon_(runtime, plan) {
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
    const bool of_muon = muon_.takes(static_cast<int>(states_.size()));
    const std::size_t num_states = state_names(states_.size()).size();
    states_.emplace_back();
    for (std::size_t i = 0; i < num_states; ++i) {
      states_.back().push_back(make(plan.state(of_muon)).flat());
    }
  }
}

std::vector<std::string_view> WholeParameters::state_names(std::size_t parameter) const {
  if (muon_.takes(static_cast<int>(parameter))) return {kMuonState};
  const std::span<const std::string_view> names = plan_.optimizer->state_names();
  return {names.begin(), names.end()};
}

void WholeParameters::zero_gradients() { fill_with_zeros(gradients_); }

double WholeParameters::norm(NormType type) const {
  double sum = 0.0;
  double most = 0.0;
  for (const Tensor& gradient : gradients_) {
    for (const double value : values_of(gradient)) {
      sum += value * value;
      most = std::isnan(value) ? HUGE_VAL : std::fmax(most, std::fabs(value));
    }
  }
  return type == NormType::two ? std::sqrt(sum) : most;
}

ReferenceTensors WholeParameters::gradients() const { return values_of_all(gradients_); }
ReferenceTensors WholeParameters::masters() const { return values_of_all(masters_); }

void WholeParameters::set_gradients(const ReferenceTensors& all) { store_all(gradients_, all); }

void WholeParameters::saturate_gradients() {
  const double largest = largest_finite(plan_.gradient_dtype);
  ReferenceTensors all = gradients();
  for (std::vector<double>& values : all) {
    for (double& value : values) {
      if (std::isinf(value)) value = std::copysign(largest, value);
    }
  }
  set_gradients(all);
}

void WholeParameters::optimize(double scale, std::int64_t step) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const int parameter = static_cast<int>(i);
    if (muon_.takes(parameter)) {
      muon_.step(parameter, masters_[i].flat(), gradients_[i].flat(), states_[i].front(), scale);
    } else {
      plan_.optimizer->step(runtime_, masters_[i].flat(), gradients_[i].flat(), states_[i], scale,
                            step);
    }
    if (plan_.master_dtype != plan_.weight_dtype) store(weights_[i], values_of(masters_[i]));
  }
}

void WholeParameters::set_weights(const ReferenceTensors& all) { store_all(weights_, all); }

void WholeParameters::set_masters(const ReferenceTensors& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    store(masters_[i], all[i]);
    if (plan_.master_dtype != plan_.weight_dtype) store(weights_[i], values_of(masters_[i]));
  }
}

void WholeParameters::set_state(const ReferenceKinds& kinds) {
  const auto set = [&](std::string_view kind, const auto& tensor_of) {
    const auto found = kinds.find(kind);
    if (found == kinds.end()) return;
    for (std::size_t i = 0; i < found->second.size(); ++i) {
      if (!found->second[i].empty()) store(tensor_of(i), found->second[i]);
    }
  };
  set("parameter", [&](std::size_t i) { return weights_[i]; });
  // Otherwise masters are the weights.
  if (plan_.master_dtype != plan_.weight_dtype) {
    set("master", [&](std::size_t i) { return masters_[i]; });
  }
  for (std::size_t k = 0; k < plan_.optimizer->state_names().size(); ++k) {
    set(plan_.optimizer->state_names()[k], [&](std::size_t i) { return states_[i][k]; });
  }
  set(kMuonState, [&](std::size_t i) { return states_[i].front(); });
}

void WholeParameters::record_state(ReferenceStep& step) const {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    step.kinds["parameter"].push_back(values_of(weights_[i]));
    if (plan_.master_dtype != plan_.weight_dtype) {
      step.kinds["master"].push_back(values_of(masters_[i]));
    }
    const std::vector<std::string_view> names = state_names(i);
    for (std::size_t k = 0; k < names.size(); ++k) {
      ReferenceTensors& kept = step.kinds[std::string(names[k])];
      kept.resize(weights_.size());  // Empty where a parameter has no such state.
      kept[i] = values_of(states_[i][k]);
    }
  }
}

ExactSums::ExactSums(Runtime& runtime, const Model& model, WholeParameters& of) : of_(of) {
  for (const ParameterSpec& spec : model.parameters()) {
    gradients_.push_back(runtime.allocate(MemoryCategory::params, spec.shape, DType::fp64));
  }
}

void ExactSums::zero_gradients() { fill_with_zeros(gradients_); }
ReferenceTensors ExactSums::gradients() const { return values_of_all(gradients_); }

std::vector<double> forward_backward(const Model& model, Runtime& runtime, Parameters& parameters,
                                     const Batch& batch, const ModelParallel& state,
                                     const SeenWork& seen) {
  std::vector<Saved> saved(static_cast<std::size_t>(model.num_modules()));
  Tensor activation;
  const ModelContext forward{
      .runtime = runtime, .parameters = parameters, .parallel = state, .quantizes_at_use = true};
  CloseCalls* const calls = CloseCalls::active();
  for (int module = 0; module < model.num_modules(); ++module) {
    if (calls != nullptr) calls->forward(module);
    activation =
        model.forward(module, forward, activation, batch, saved[static_cast<std::size_t>(module)]);
  }
  const std::vector<double> losses = values_of(activation);
  Tensor gradient;
  WeightGradientQueue later(LeftWork::terms);
  const ModelContext context{.runtime = runtime,
                             .parameters = parameters,
                             .parallel = state,
                             .later = seen ? &later : nullptr,
                             .quantizes_at_use = true};
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    if (calls != nullptr) calls->backward(module);
    gradient =
        model.backward(module, context, gradient, batch, saved[static_cast<std::size_t>(module)]);
    for (const WeightGradient& work : later.waiting()) seen(work);
    later.run(context);
  }
  return losses;
}

}  // namespace shardsim
