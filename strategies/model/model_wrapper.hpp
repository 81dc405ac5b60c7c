#pragma once

#include "strategies/model/model.hpp"

namespace shardsim {

/// Another model, passed on as it is: who changes one thing about a model overrides that.
class ModelWrapper : public Model {
 public:
  /// `inner` must outlive it.
  explicit ModelWrapper(const Model& inner) : inner_(inner) {}

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override {
    return inner_.parameters();
  }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return inner_.units(); }
  [[nodiscard]] int num_modules() const override { return inner_.num_modules(); }
  [[nodiscard]] ModuleRange layer_modules() const override { return inner_.layer_modules(); }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return inner_.units_of(module);
  }
  [[nodiscard]] std::span<const int> parameters_of(int module) const override {
    return inner_.parameters_of(module);
  }
  [[nodiscard]] int kind_of(int module) const override { return inner_.kind_of(module); }
  [[nodiscard]] bool keeps_state(int module) const override { return inner_.keeps_state(module); }
  [[nodiscard]] std::vector<OffloadModule> readers_of_kept(int module) const override {
    return inner_.readers_of_kept(module);
  }
  [[nodiscard]] std::vector<RouterBiasSpec> router_biases() const override {
    return inner_.router_biases();
  }
  [[nodiscard]] int num_chunks() const override { return inner_.num_chunks(); }
  [[nodiscard]] ModuleRange modules_of_chunk(int chunk) const override {
    return inner_.modules_of_chunk(chunk);
  }
  [[nodiscard]] Shape activation_shape(std::int64_t samples) const override {
    return inner_.activation_shape(samples);
  }
  [[nodiscard]] DType dtype() const override { return inner_.dtype(); }
  [[nodiscard]] bool casts_activations() const override { return inner_.casts_activations(); }
  [[nodiscard]] int num_losses() const override { return inner_.num_losses(); }
  [[nodiscard]] double loss_weight(int loss) const override { return inner_.loss_weight(loss); }
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override {
    return inner_.forward(module, context, input, batch, saved);
  }
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    return inner_.backward(module, context, output_gradient, batch, saved);
  }
  void run_weight_gradients(WeightGradientQueue& queue,
                            const ModelContext& context) const override {
    inner_.run_weight_gradients(queue, context);
  }
  [[nodiscard]] Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                 std::int64_t count, double ignore_fraction,
                                 const SequencePart& part) const override {
    return inner_.make_batch(runtime, seed, first, count, ignore_fraction, part);
  }
  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count, double ignore_fraction,
                                           const SequencePart& part, int loss) const override {
    return inner_.count_targets(seed, first, count, ignore_fraction, part, loss);
  }
  [[nodiscard]] std::int64_t positions_per_sample() const override {
    return inner_.positions_per_sample();
  }
  [[nodiscard]] std::int64_t model_flops_per_sample() const override {
    return inner_.model_flops_per_sample();
  }
  [[nodiscard]] std::int64_t model_flops_per_expert_token() const override {
    return inner_.model_flops_per_expert_token();
  }

 protected:
  const Model& inner_;
};

}  // namespace shardsim
