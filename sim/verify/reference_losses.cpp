#include "sim/verify/reference_losses.hpp"

namespace shardsim {

void scale_reference_losses(Batch& batch, const Model& model, const TargetCounts& targets,
                            double factor) {
  batch.loss_scale = targets[0] > 0.0 ? factor * (1.0 / targets[0]) : 0.0;
  batch.ahead_scales.clear();
  for (int loss = 1; loss < model.num_losses(); ++loss) {
    const double count = targets[static_cast<std::size_t>(loss)];
    batch.ahead_scales.push_back(count > 0.0 ? factor * model.loss_weight(loss) / count : 0.0);
  }
}

double joined_reference_losses(const Model& model, const std::vector<double>& sums,
                               const TargetCounts& targets) {
  double joined = sums[0];
  for (int loss = 1; loss < model.num_losses(); ++loss) {
    const auto i = static_cast<std::size_t>(loss);
    if (targets[i] > 0.0) joined += model.loss_weight(loss) * sums[i] * (targets[0] / targets[i]);
  }
  return joined;
}

double mean_reference_loss(const Model& model, const std::vector<double>& sums,
                           const TargetCounts& targets) {
  const double joined = joined_reference_losses(model, sums, targets);
  return targets[0] > 0.0 ? joined / targets[0] : joined;
}

}  // namespace shardsim
