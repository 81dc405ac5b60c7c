#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/optimizer/optimizer.hpp"

namespace shardsim {

namespace {

void require_of_optimizer(bool holds, const char* name, double value, const char* fix) {
  if (holds) return;
  throw UsageError("E0605", "an optimizer's " + std::string(name) + " is " + std::to_string(value),
                   fix);
}

void require_rate(const char* name, double rate) {
  require_of_optimizer(std::isfinite(rate) && rate >= 0.0, name, rate,
                       "give a finite number, 0 or more");
}

// From 1 on, a moment forgets nothing, or grows without end.
void require_decay(const char* name, double decay) {
  require_of_optimizer(decay >= 0.0 && decay < 1.0, name, decay,
                       "give a number of at least 0 and below 1");
}

}  // namespace

void validate(const OptimizerOptions& options) {
  require_rate("learning_rate", options.learning_rate);
  require_rate("weight_decay", options.weight_decay);
  require_decay("momentum", options.momentum);
  require_decay("beta1", options.beta1);
  require_decay("beta2", options.beta2);
  require_decay("rms_alpha", options.rms_alpha);
  require_of_optimizer(std::isfinite(options.epsilon) && options.epsilon > 0.0, "epsilon",
                       options.epsilon, "give a finite number above 0: it keeps divisors from 0");
}

}  // namespace shardsim
