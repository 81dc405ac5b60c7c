#include "strategies/sharded_optimizer/early_stopping.hpp"

#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

void require_of_stopping(bool holds, const char* name, const std::string& value, const char* fix) {
  if (holds) return;
  throw UsageError("E0793", "early stopping: " + std::string(name) + " is " + value, fix);
}

void require_count(const char* name, std::int64_t count) {
  require_of_stopping(count >= 0, name, std::to_string(count),
                      "count 1 or more, or use 0 for never");
}

void require_finite(const char* name, double size) {
  require_of_stopping(std::isfinite(size) && size >= 0.0, name, std::to_string(size),
                      "give a finite number, 0 or more");
}

}  // namespace

void validate(const EarlyStopping& rules) {
  require_count("patience", rules.patience);
  require_count("validation_patience", rules.validation_patience);
  require_finite("minimum_improvement", rules.minimum_improvement);
  require_finite("minimum_change", rules.minimum_change);
}

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
