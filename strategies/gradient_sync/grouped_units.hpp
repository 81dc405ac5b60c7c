#pragma once

#include <memory>
#include <vector>

#include "strategies/model/model.hpp"

namespace shardsim {

/// The same model with larger units: neighbours are one unit until it has `minimum_numel` elements,
/// so that small ones are not gathered and reduced alone. A unit that is read by several modules
/// stays gathered from its first forward to its last backward: the price of fewer messages. Units
/// of different model chunks and tied parameters are not joined, and the last unit may be smaller.
class GroupedUnits final : public Model {
 public:
  /// `inner` must outlive it.
  GroupedUnits(const Model& inner, std::int64_t minimum_numel);

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override {
    return inner_.parameters();
  }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return units_; }
  [[nodiscard]] int num_modules() const override { return inner_.num_modules(); }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return module_units_[static_cast<std::size_t>(module)];
  }
  [[nodiscard]] std::span<const int> parameters_of(int module) const override {
    return inner_.parameters_of(module);
  }
  [[nodiscard]] Shape activation_shape(std::int64_t samples) const override {
    return inner_.activation_shape(samples);
  }
  [[nodiscard]] DType dtype() const override { return inner_.dtype(); }
  [[nodiscard]] int num_chunks() const override { return inner_.num_chunks(); }
  [[nodiscard]] ModuleRange modules_of_chunk(int chunk) const override {
    return inner_.modules_of_chunk(chunk);
  }
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
                                 std::int64_t count, double ignore_fraction) const override {
    return inner_.make_batch(runtime, seed, first, count, ignore_fraction);
  }
  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count,
                                           double ignore_fraction) const override {
    return inner_.count_targets(seed, first, count, ignore_fraction);
  }
  [[nodiscard]] std::int64_t positions_per_sample() const override {
    return inner_.positions_per_sample();
  }
  [[nodiscard]] std::int64_t model_flops_per_sample() const override {
    return inner_.model_flops_per_sample();
  }

 private:
  const Model& inner_;
  std::vector<ParameterUnit> units_;
  std::vector<std::vector<int>> module_units_;
};

}  // namespace shardsim
