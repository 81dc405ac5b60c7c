#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "strategies/model/weight_gradient.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/strategies/tensor_parallel_cases.hpp"

// A model whole on one device, and the same model in parts on t ranks, side by side.
namespace shardsim::test {

/// One pass of the whole model.
struct WholeRunResult {
  explicit WholeRunResult(const ModelCase& c)
      : model(make_model(c.options)),
        parameters(*model, runtime, 7, c.options.dtype, c.options.dtype),
        batch(model->make_batch(runtime, 3, 0, c.samples, 0.3)) {
    batch.loss_scale = 0.125;
    for (int i = 0; !c.options.integer_valued && i < parameters.size(); ++i) {
      stir(parameters.weight(i), i);
    }
    saved.resize(static_cast<std::size_t>(model->num_modules()));
    Tensor x;
    for (std::size_t module = 0; module < saved.size(); ++module) {
      x = model->forward(static_cast<int>(module), {runtime, parameters}, x, batch, saved[module]);
      outputs.push_back(copy_of(x));
    }
    Tensor d;
    input_gradients.resize(saved.size());
    for (std::size_t module = saved.size(); module-- > 0;) {
      d = model->backward(static_cast<int>(module), {runtime, parameters}, d, batch, saved[module]);
      if (d.defined()) input_gradients[module] = copy_of(d);
    }
  }

  LocalRuntime runtime;
  std::unique_ptr<Model> model;
  WholeParameters parameters;
  Batch batch;
  std::vector<Saved> saved;
  std::vector<Tensor> outputs;          ///< One for each module; the last is the loss.
  std::vector<Tensor> input_gradients;  ///< One for each module; none for the first.
};

/// A rank's parts, initialised as parts of what the whole has.
class PartParameters final : public Parameters {
 public:
  /// `part`: the tensor-parallel rank.
  PartParameters(const Model& model, Runtime& runtime, DType dtype, int part,
                 WholeParameters* whole)
      : model_(model) {
    for (int i = 0; i < static_cast<int>(model.parameters().size()); ++i) {
      const ParameterSpec& spec = spec_of(i);
      weights_.push_back(runtime.allocate(MemoryCategory::params, spec.shape, dtype));
      gradients_.push_back(runtime.allocate(MemoryCategory::grads, spec.shape, dtype));
      if (whole == nullptr || !weights_.back().has_data()) continue;
      const PartIndex rank{.tensor = part};
      store(weights_.back(), values(part_of(spec, rank.of(spec), whole->weight(i))));
    }
  }
  [[nodiscard]] Tensor weight(int index) override { return weights_[to_size(index)]; }
  [[nodiscard]] Tensor gradient(int index) override { return gradients_[to_size(index)]; }
  void gradient_ready(int index) override { ready_.push_back(index); }

  [[nodiscard]] const std::vector<int>& ready() const { return ready_; }
  [[nodiscard]] const ParameterSpec& spec_of(int index) const {
    return model_.parameters()[to_size(index)];
  }
  [[nodiscard]] int size() const { return static_cast<int>(weights_.size()); }

 private:
  static std::size_t to_size(int index) { return static_cast<std::size_t>(index); }
  static std::vector<double> values(const Tensor& tensor) {
    std::vector<double> all(static_cast<std::size_t>(tensor.numel()));
    load(tensor, all);
    return all;
  }

  const Model& model_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> gradients_;
  std::vector<int> ready_;
};

/// One pass of one rank's part: modules forward, then backward, then what was left for later.
struct PartRun {
  PartRun(const ModelCase& c, const Model& model, Runtime& runtime, Communicator& group,
          WholeParameters* whole)
      : parallel(group, c.sequence_parallel, c.overlaps),
        parameters(model, runtime, c.options.dtype, group.rank(), whole),
        batch(model.make_batch(runtime, 3, 0, c.samples, 0.3)),
        context{runtime, parameters, {.tensor = &parallel}},
        model_(model),
        saved_(static_cast<std::size_t>(model.num_modules())) {
    batch.loss_scale = 0.125;
  }

  /// `each` is called with a module and its output.
  template <class Each>
  void forward(Each&& each) {
    Tensor x;
    for (int module = 0; module < model_.num_modules(); ++module) {
      x = model_.forward(module, context, std::exchange(x, Tensor()), batch,
                         saved_[static_cast<std::size_t>(module)]);
      each(module, x);
    }
  }
  /// `each` is called with a module and its input's gradient.
  template <class Each>
  void backward(Each&& each) {
    Tensor d;
    for (int module = model_.num_modules() - 1; module >= 0; --module) {
      d = model_.backward(module, context, std::exchange(d, Tensor()), batch,
                          saved_[static_cast<std::size_t>(module)]);
      if (d.defined()) each(module, d);
    }
  }
  void run() {
    forward([](int, const Tensor&) {});
    backward([](int, const Tensor&) {});
  }

  TensorParallel parallel;
  PartParameters parameters;
  Batch batch;
  ModelContext context;

 private:
  const Model& model_;
  std::vector<Saved> saved_;
};

}  // namespace shardsim::test
