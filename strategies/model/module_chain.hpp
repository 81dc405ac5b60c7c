#pragma once

#include <vector>

#include "strategies/model/model.hpp"

// A model is a chain of modules. How one microbatch goes through it is written here, once: training
// runs it, and so does the dry run that finds the order in which gradients become ready.
namespace shardsim {

/// Parameters that are told which module runs next and which has run, so that they can be gathered
/// before and freed or reduced after.
class ModuleParameters : public Parameters {
 public:
  virtual void before_forward(int /*module*/) {}
  virtual void after_forward(int /*module*/) {}
  virtual void before_backward(int /*module*/) {}
  /// The gradient of the module's input is there: its weights are not read any more.
  virtual void after_backward(int /*module*/) {}
  /// The gradients of the module's parameters are complete for this microbatch.
  virtual void after_weight_gradients(int /*module*/) {}
};

/// Runs the modules of a chunk, first to last. `input` is undefined for the first module of a
/// model. Returns what the last of them returns: the activation for the next stage, or the sum of
/// the losses, [1] fp64. `saved` has a place per module of the chunk, empty before and filled
/// after.
[[nodiscard]] Tensor forward_chunk(const Model& model, int chunk, const ModelContext& context,
                                   ModuleParameters& parameters, Tensor input, const Batch& batch,
                                   std::span<Saved> saved);

/// Adds the gradients of weights that backward_chunk left in `queue`.
void finish_chunk(const Model& model, int chunk, const ModelContext& context,
                  ModuleParameters& parameters, WeightGradientQueue& queue);

/// Runs them last to first, and leaves `saved` empty again. `gradient` is that of the chunk's
/// output, undefined at the loss. Returns that of its input, undefined at the model's first module.
[[nodiscard]] Tensor backward_chunk(const Model& model, int chunk, const ModelContext& context,
                                    ModuleParameters& parameters, Tensor gradient,
                                    const Batch& batch, std::span<Saved> saved);

}  // namespace shardsim
