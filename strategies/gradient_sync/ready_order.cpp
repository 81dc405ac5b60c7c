#include "strategies/gradient_sync/ready_order.hpp"

#include <utility>

#include "strategies/model/module_chain.hpp"

namespace shardsim {

namespace {

class OrderRecorder final : public ModuleParameters {
 public:
  OrderRecorder(Runtime& runtime, const Model& model, DType dtype) {
    for (const ParameterSpec& spec : model.parameters()) {
      tensors_.push_back(runtime.allocate(MemoryCategory::params, spec.shape, dtype));
    }
  }
  Tensor weight(int index) override { return tensors_[static_cast<std::size_t>(index)]; }
  Tensor gradient(int index) override {
    together_ = false;
    return tensors_[static_cast<std::size_t>(index)];
  }
  void gradient_ready(int index) override {
    if (!together_) order.emplace_back();
    order.back().push_back(index);
    together_ = true;
  }

  ReadyOrder order;

 private:
  std::vector<Tensor> tensors_;
  bool together_ = false;
};

// A parameter that backward never reports still needs a place: zero-filled, reduced last.
void append_unreported(ReadyOrder& order, std::size_t num_parameters) {
  std::vector<bool> reported(num_parameters, false);
  for (const std::vector<int>& together : order) {
    for (const int index : together) reported[static_cast<std::size_t>(index)] = true;
  }
  for (std::size_t index = num_parameters; index-- > 0;) {
    if (!reported[index]) order.push_back({static_cast<int>(index)});
  }
}

// The activations between stages are made up: the order does not depend on them.
void run_once(const Model& model, Runtime& runtime, OrderRecorder& recorder, const Batch& batch) {
  std::vector<Saved> saved(static_cast<std::size_t>(model.num_modules()));
  const auto of_chunk = [&](int chunk) {
    const ModuleRange modules = model.modules_of_chunk(chunk);
    return std::span<Saved>(saved).subspan(static_cast<std::size_t>(modules.first),
                                           static_cast<std::size_t>(modules.count));
  };
  const auto handed_over = [&] {
    return runtime.allocate(MemoryCategory::activations, model.activation_shape(1), model.dtype());
  };
  for (int chunk = 0; chunk < model.num_chunks(); ++chunk) {
    (void)forward_chunk(model, chunk, {runtime, recorder}, recorder, handed_over(), batch,
                        of_chunk(chunk));
  }
  for (int chunk = model.num_chunks() - 1; chunk >= 0; --chunk) {
    (void)backward_chunk(model, chunk, {runtime, recorder}, recorder, handed_over(), batch,
                         of_chunk(chunk));
  }
}

}  // namespace

ReadyOrder gradient_ready_order(const Model& model, DType dtype) {
  ShapesOnlyRuntime runtime;
  OrderRecorder recorder(runtime, model, dtype);
  const Batch batch = model.make_batch(runtime, 0, 0, 1, 0.0);
  run_once(model, runtime, recorder, batch);
  append_unreported(recorder.order, model.parameters().size());
  return std::move(recorder.order);
}

}  // namespace shardsim
