#include "strategies/sharded_optimizer/option_scalars.hpp"

namespace shardsim {

Scalars option_scalars(const OptimizerOptions& options, const Regularization& penalty) {
  static_assert(sizeof(OptimizerOptions) == 7 * sizeof(double), "a new option is saved, too");
  static_assert(sizeof(Regularization) == 2 * sizeof(double), "a new penalty is saved, too");
  return {{"optimizer.learning_rate", options.learning_rate},
          {"optimizer.momentum", options.momentum},
          {"optimizer.beta1", options.beta1},
          {"optimizer.beta2", options.beta2},
          {"optimizer.epsilon", options.epsilon},
          {"optimizer.weight_decay", options.weight_decay},
          {"optimizer.rms_alpha", options.rms_alpha},
          {"regularization.l1", penalty.l1},
          {"regularization.l2", penalty.l2}};
}

}  // namespace shardsim
