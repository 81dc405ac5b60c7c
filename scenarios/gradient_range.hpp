#pragma once

#include "scenarios/scenario.hpp"

namespace shardsim {

/// Whether gradients pass through fp16. Only this type here has a smaller range than the fp32 of
/// their sums, so that they can overflow and vanish.
[[nodiscard]] inline bool has_narrow_gradients(const TrainingSpec& training) {
  return training.precision == DType::fp16 || training.grad_reduce_dtype == DType::fp16;
}

}  // namespace shardsim
