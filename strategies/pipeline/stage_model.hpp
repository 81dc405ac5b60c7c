#pragma once

#include <memory>
#include <vector>

#include "strategies/model/model_wrapper.hpp"
#include "strategies/pipeline/schedule.hpp"

// The part of a model that one pipeline rank runs, as a model of its own: gradient synchronization,
// layouts and optimizers work on it as on a whole model.
namespace shardsim {

/// Modules and parameters are numbered anew, from 0. Units are those of the whole model, restricted
/// to the parameters that are read here. A tied parameter, copied by another stage, is a unit of
/// its own. So both copies are sharded alike and their gradients can be summed. Content and cost of
/// a sample, and layer_modules(), stay those of the whole model: a part is not cut again.
class StageModel final : public ModelWrapper {
 public:
  /// `chunks`: the modules of each model chunk of this rank, in the order of the model. `whole`
  /// must outlive it.
  StageModel(const Model& whole, const std::vector<ModuleRange>& chunks);

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override { return specs_; }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return units_; }
  [[nodiscard]] int num_modules() const override { return static_cast<int>(modules_.size()); }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return module_units_[index_of(module)];
  }
  [[nodiscard]] std::span<const int> parameters_of(int module) const override {
    return module_parameters_[index_of(module)];
  }
  /// As the whole model numbers them.
  [[nodiscard]] int kind_of(int module) const override {
    return inner_.kind_of(modules_[index_of(module)]);
  }
  [[nodiscard]] bool keeps_state(int module) const override {
    return inner_.keeps_state(modules_[index_of(module)]);
  }
  [[nodiscard]] std::vector<OffloadModule> readers_of_kept(int module) const override {
    return inner_.readers_of_kept(modules_[index_of(module)]);
  }
  [[nodiscard]] std::vector<RouterBiasSpec> router_biases() const override;
  [[nodiscard]] int num_chunks() const override { return static_cast<int>(chunks_.size()); }
  [[nodiscard]] ModuleRange modules_of_chunk(int chunk) const override {
    return chunks_[index_of(chunk)];
  }
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override;
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override;
  void run_weight_gradients(WeightGradientQueue& queue, const ModelContext& context) const override;

  /// Indices in the whole model of this model's parameters.
  [[nodiscard]] std::span<const int> whole_parameters() const { return whole_index_; }

 private:
  // The readers of a parameter of the whole model.
  struct Readers {
    int first_chunk = -1;  // On this rank; -1: none.
    bool elsewhere = false;
  };
  [[nodiscard]] std::vector<Readers> find_readers() const;
  void add_unit(const ParameterUnit& unit, const std::vector<Readers>& readers);
  void add_parameters(const std::string& name, const std::vector<int>& members,
                      const std::vector<Readers>& readers);
  void list_users();

  std::vector<ModuleRange> chunks_;  // In this model's numbers.
  std::vector<int> modules_;         // In the whole model's.
  std::vector<ParameterSpec> specs_;
  std::vector<ParameterUnit> units_;
  std::vector<int> whole_index_;
  std::vector<int> local_index_;  // By parameter of the whole model; -1: not here.
  std::vector<std::vector<int>> module_units_;
  std::vector<std::vector<int>> module_parameters_;
};

}  // namespace shardsim
