#pragma once

#include <vector>

#include "strategies/model/model.hpp"

// How the oracle reads the losses of a model with several, apart from the training's code on
// purpose: the oracle cannot find errors in code that it shares with it.
namespace shardsim {

/// The factors with which gradients are those of the sum of weighted means, times `factor`.
void scale_reference_losses(Batch& batch, const Model& model, const TargetCounts& targets,
                            double factor);

/// All losses as one sum, which is divided by the targets of the first: each of the others counts
/// as much as its mean does. `sums`: of the losses of some of these targets.
[[nodiscard]] double joined_reference_losses(const Model& model, const std::vector<double>& sums,
                                             const TargetCounts& targets);
/// The loss that is trained, of the sums over all of these targets.
[[nodiscard]] double mean_reference_loss(const Model& model, const std::vector<double>& sums,
                                         const TargetCounts& targets);

}  // namespace shardsim
