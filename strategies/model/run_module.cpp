#include "strategies/model/run_module.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "sim/kernel/error.hpp"

#include "backends/repeats.hpp"

#include "strategies/model/pass.hpp"
#include "strategies/model/quantized_weights.hpp"

namespace shardsim {

namespace {

// Questions about a parameter, which has a place among the module's.
enum class Question : int { weight, gradient, gradient_ready, count };

// Lets a recorder see what a module asks of its parameters.
class AskedParameters final : public Parameters {
 public:
  AskedParameters(std::span<const int> own, const Repeats::Ask& ask) : own_(own), ask_(ask) {}
  Tensor weight(int index) override { return ask(index, Question::weight); }
  Tensor gradient(int index) override { return ask(index, Question::gradient); }
  void gradient_ready(int index) override { (void)ask(index, Question::gradient_ready); }

 private:
  [[nodiscard]] Tensor ask(int index, Question question) const {
    const auto found = std::ranges::find(own_, index);
    if (found == own_.end()) {
      throw UsageError("E0618",
                       concat("a module asks for its parameter ", index,
                              ", which Model::parameters_of does not list"),
                       "list all parameters that forward and backward read");
    }
    const auto place = static_cast<int>(found - own_.begin());
    return ask_(place * static_cast<int>(Question::count) + static_cast<int>(question));
  }

  std::span<const int> own_;
  const Repeats::Ask& ask_;
};

Tensor answer_of(Parameters& parameters, std::span<const int> own, int asked) {
  constexpr int kQuestions = static_cast<int>(Question::count);
  const int index = own[static_cast<std::size_t>(asked / kQuestions)];
  switch (static_cast<Question>(asked % kQuestions)) {
    case Question::weight:
      return parameters.weight(index);
    case Question::gradient:
      return parameters.gradient(index);
    default:
      parameters.gradient_ready(index);
      return {};
  }
}

// Forward and backward of one module and microbatch.
std::int64_t pair_of(const Model& model, int module, const Batch& batch) {
  return batch.first_sample * model.num_modules() + module;
}

// The weights of the module's products, before the first microbatch of a step comes to it.
void make_quantized(const Model& model, int module, const ModelContext& context) {
  if (context.quantized_weights == nullptr) return;
  for (const int index : model.parameters_of(module)) {
    const ParameterSpec& spec = model.parameters()[static_cast<std::size_t>(index)];
    if (spec.low == nullptr) continue;
    const Tensor weight = context.weight_of(index);
    context.quantized_weights->make(context.runtime, *spec.low, index, weight,
                                    weight_cast(context, index, weight));
  }
}

using Turn = Tensor (Model::*)(int module, const ModelContext& context, const Tensor& given,
                               const Batch& batch, Saved& saved) const;

Tensor run(Turn turn, const Model& model, int module, const ModelContext& context,
           const Tensor& given, const Batch& batch, Saved& saved) {
  Repeats* const repeats = context.runtime.repeats();
  const std::int64_t pair = model.keeps_state(module) ? pair_of(model, module, batch) : -1;
  // Interleaved passes cannot be recorded as repeated steps.
  if (context.is_run_each_time) return (model.*turn)(module, context, given, batch, saved);
  // Work that is left for later outlives the turn.
  if (repeats == nullptr || context.later != nullptr) {
    if (repeats != nullptr) {
      if (pair >= 0) repeats->require_first_run(pair);
      repeats->show(saved);
    }
    return (model.*turn)(module, context, given, batch, saved);
  }
  const std::span<const int> own = model.parameters_of(module);
  const bool is_forward = turn == &Model::forward;
  const std::array used{given, batch.inputs, batch.targets, batch.mask};
  const auto ask = [&](int asked) { return answer_of(context.parameters, own, asked); };
  const auto run = [&](const Repeats::Ask& asks) {
    AskedParameters parameters(own, asks);
    return (model.*turn)(module, context.with(parameters), given, batch, saved);
  };
  Repeats::Work work{
      .key = 2 * model.kind_of(module) + (is_forward ? 0 : 1),
      .used = used,
      .kept = saved,
      .is_last = context.is_last_microbatch,
      .pair = pair,
      .is_first = is_forward,
      .need_not_ask =
          is_forward ||
          std::ranges::all_of(
              own, [&](int parameter) { return context.parameters.is_settled(parameter); }),
      // References, so that neither takes memory of its own: this is done for each layer.
      .ask = std::ref(ask),
      .run = std::ref(run),
  };
  Tensor output = repeats->run(work);
  if (context.offload != nullptr) repeats->show(saved);
  return output;
}

}  // namespace

Tensor run_forward(const Model& model, int module, const ModelContext& context, const Tensor& input,
                   const Batch& batch, Saved& saved) {
  make_quantized(model, module, context);
  return run(&Model::forward, model, module, context, input, batch, saved);
}

Tensor run_backward(const Model& model, int module, const ModelContext& context,
                    const Tensor& output_gradient, const Batch& batch, Saved& saved) {
  return run(&Model::backward, model, module, context, output_gradient, batch, saved);
}

}  // namespace shardsim
