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
  virtual void after_backward(int /*module*/) {}
};

/// Runs all modules, first to last. Returns the sum of the losses, [1] fp64. `saved` has a place
/// per module, empty before and filled after.
[[nodiscard]] Tensor forward_all(const Model& model, Runtime& runtime, ModuleParameters& parameters,
                                 const Batch& batch, std::vector<Saved>& saved);

/// Runs all modules, last to first, and leaves `saved` empty again.
void backward_all(const Model& model, Runtime& runtime, ModuleParameters& parameters,
                  const Batch& batch, std::vector<Saved>& saved);

}  // namespace shardsim
