#pragma once

#include "scenarios/scenario.hpp"

namespace shardsim {

/// Whether gradients pass through fp16: of the types here the only one with less than the range of
/// the fp32 in which they end up, so that they can overflow and vanish.
[[nodiscard]] inline bool has_narrow_gradients(const TrainingSpec& training) {
  return training.precision == DType::fp16 || training.grad_reduce_dtype == DType::fp16;
}

}  // namespace shardsim
