#include "tests/mutants/model_faults.hpp"

#include <utility>

namespace shardsim::test {

namespace {

// Leaves out what an operation called `left_out` would compute, and names all of them.
class ForgetfulRuntime final : public Runtime {
 public:
  ForgetfulRuntime(Runtime& inner, std::string left_out, std::set<std::string>* names)
      : inner_(inner), left_out_(std::move(left_out)), names_(names) {}
  [[nodiscard]] bool has_data() const override {
    return !std::exchange(forgets_, false) && inner_.has_data();
  }
  [[nodiscard]] MemoryLedger* ledger() override { return inner_.ledger(); }

 protected:
  void charge(const ComputeOp& op) override {
    inner_.compute(op, [] {});
    if (names_ != nullptr) names_->insert(op.name);
    forgets_ = op.name == left_out_;
  }

 private:
  Runtime& inner_;
  std::string left_out_;
  std::set<std::string>* names_;
  mutable bool forgets_ = false;
};

class ForgetfulModel final : public ModelWrapper {
 public:
  // `forward` and `backward`: what is left out in each.
  ForgetfulModel(const Model& model, std::string forward, std::string backward,
                 std::set<std::string>* names)
      : ModelWrapper(model),
        forward_(std::move(forward)),
        backward_(std::move(backward)),
        names_(names) {}
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override {
    ForgetfulRuntime runtime(context.runtime, forward_, names_);
    return inner_.forward(module, on(runtime, context), input, batch, saved);
  }
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    ForgetfulRuntime runtime(context.runtime, backward_, names_);
    return inner_.backward(module, on(runtime, context), output_gradient, batch, saved);
  }
  void run_weight_gradients(WeightGradientQueue& queue,
                            const ModelContext& context) const override {
    ForgetfulRuntime runtime(context.runtime, backward_, names_);
    inner_.run_weight_gradients(queue, on(runtime, context));
  }

 private:
  static ModelContext on(Runtime& runtime, const ModelContext& context) {
    return {.runtime = runtime,
            .parameters = context.parameters,
            .parallel = context.parallel,
            .later = context.later,
            .is_last_microbatch = context.is_last_microbatch,
            .quantized_weights = context.quantized_weights,
            .quantizes_at_use = context.quantizes_at_use};
  }

  std::string forward_;
  std::string backward_;
  std::set<std::string>* names_;
};

class BentParameters final : public Parameters {
 public:
  BentParameters(Parameters& inner, const Model& model, const std::string& name, double factor,
                 double shift)
      : inner_(inner), model_(model), name_(name), factor_(factor), shift_(shift) {}
  [[nodiscard]] Tensor weight(int index) override {
    const Tensor weight = inner_.weight(index);
    if (!model_.parameters()[static_cast<std::size_t>(index)].name.ends_with(name_)) return weight;
    Tensor bent = Tensor::allocate(nullptr, MemoryCategory::comm, weight.shape(), weight.dtype(),
                                   !weight.has_data());
    for (std::int64_t i = 0; bent.has_data() && i < bent.numel(); ++i) {
      bent.set(i, factor_ * weight.get(i) + shift_);
    }
    return bent;
  }
  [[nodiscard]] Tensor gradient(int index) override { return inner_.gradient(index); }
  void gradient_ready(int index) override { inner_.gradient_ready(index); }
  [[nodiscard]] bool is_settled(int index) const override { return inner_.is_settled(index); }

 private:
  Parameters& inner_;
  const Model& model_;
  const std::string& name_;
  double factor_;
  double shift_;
};

class BentModel final : public ModelWrapper {
 public:
  BentModel(const Model& model, std::string name, double factor, double shift)
      : ModelWrapper(model), name_(std::move(name)), factor_(factor), shift_(shift) {}
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override {
    BentParameters bent(context.parameters, *this, name_, factor_, shift_);
    return inner_.forward(module, context.with(bent), input, batch, saved);
  }
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    BentParameters bent(context.parameters, *this, name_, factor_, shift_);
    return inner_.backward(module, context.with(bent), output_gradient, batch, saved);
  }

 private:
  std::string name_;
  double factor_;
  double shift_;
};

}  // namespace

std::unique_ptr<Model> without_operation(const Model& model, const std::string& name) {
  return std::make_unique<ForgetfulModel>(model, name, name, nullptr);
}

std::unique_ptr<Model> without_operation_backward(const Model& model, std::string name) {
  return std::make_unique<ForgetfulModel>(model, "", std::move(name), nullptr);
}

std::unique_ptr<Model> watched(const Model& model, std::set<std::string>& names) {
  return std::make_unique<ForgetfulModel>(model, "", "", &names);
}

std::unique_ptr<Model> with_bent_weight(const Model& model, std::string name, double factor,
                                        double shift) {
  return std::make_unique<BentModel>(model, std::move(name), factor, shift);
}

}  // namespace shardsim::test
