#include "strategies/training/loss_scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// Scalers keep the scale in fp32; torch does not let it grow beyond.
constexpr double kLargestScale = std::numeric_limits<float>::max();

void require_of_loss_scale(bool holds, const std::string& what, const std::string& fix) {
  if (!holds) throw UsageError("E0786", "loss scaling: " + what, fix);
}

}  // namespace

const char* name_of(LossScaling::Mode mode) {
  constexpr const char* kNames[] = {"none", "static", "dynamic"};
  return kNames[static_cast<std::size_t>(mode)];
}

bool is_loss_scale(double scale) { return scale > 0.0 && scale <= kLargestScale; }

void validate(const LossScaling& rule) {
  require_of_loss_scale(is_loss_scale(rule.initial_scale) && is_loss_scale(rule.minimum_scale),
                        "the scale starts at " + std::to_string(rule.initial_scale) +
                            " and is at least " + std::to_string(rule.minimum_scale),
                        "give numbers above 0 that fp32 holds");
  require_of_loss_scale(
      rule.mode != LossScaling::Mode::dynamic || rule.minimum_scale <= rule.initial_scale,
      "the scale starts at " + std::to_string(rule.initial_scale) + ", below its minimum " +
          std::to_string(rule.minimum_scale),
      "start at the minimum or above");
  require_of_loss_scale(rule.growth_factor >= 1.0 && std::isfinite(rule.growth_factor) &&
                            rule.backoff_factor > 0.0 && rule.backoff_factor <= 1.0,
                        "growth factor " + std::to_string(rule.growth_factor) +
                            ", backoff factor " + std::to_string(rule.backoff_factor),
                        "grow by 1 or more, back off by a factor in (0, 1]");
  require_of_loss_scale(rule.growth_interval >= 1 && rule.hysteresis >= 1,
                        "growth interval " + std::to_string(rule.growth_interval) +
                            ", hysteresis " + std::to_string(rule.hysteresis),
                        "count 1 step or more");
}

LossScaleState initial_state(const LossScaling& rule) {
  if (!rule.acts()) return {};
  return {.scale = rule.initial_scale, .good_steps = 0, .overflows_left = rule.hysteresis};
}

LossScaleState next_state(const LossScaling& rule, LossScaleState state, bool found_inf) {
  if (rule.mode != LossScaling::Mode::dynamic) return state;
  if (found_inf) {
    state.good_steps = 0;
    state.overflows_left = std::max<std::int64_t>(state.overflows_left - 1, 0);
    if (state.overflows_left == 0) {
      state.scale = std::max(state.scale * rule.backoff_factor, rule.minimum_scale);
    }
    return state;
  }
  if (++state.good_steps < rule.growth_interval) return state;
  const double grown = state.scale * rule.growth_factor;
  if (grown <= kLargestScale) state.scale = grown;
  state.good_steps = 0;
  state.overflows_left = rule.hysteresis;
  return state;
}

}  // namespace shardsim
