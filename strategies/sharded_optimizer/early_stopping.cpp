#include "strategies/sharded_optimizer/early_stopping.hpp"

#include <cmath>

namespace shardsim {

void LossHistory::add(double loss, double minimum_improvement) {
  change = std::fabs(loss - previous);
  previous = loss;
  // Infinite or NaN is no improvement, and nothing to be better than.
  if (std::isfinite(loss) && (!std::isfinite(best) || loss < best - minimum_improvement)) {
    best = loss;
    since_best = 0;
  } else {
    ++since_best;
  }
}

bool votes_to_stop(const EarlyStopping& rules, const LossHistory& training,
                   const LossHistory& validation) {
  if (rules.patience > 0 && training.since_best >= rules.patience) return true;
  if (rules.minimum_change > 0.0 && training.change < rules.minimum_change) return true;
  if (rules.validation_patience > 0 && validation.since_best >= rules.validation_patience) {
    return true;
  }
  return rules.vote && rules.vote();
}

}  // namespace shardsim
