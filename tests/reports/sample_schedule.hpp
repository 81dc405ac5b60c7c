#pragma once

#include <cstdint>

#include "reports/run_detail.hpp"

namespace shardsim::samples {

/// 1F1B with backwards twice as long as forwards, each as early as data and device allow, scaled so
/// that all of it with the optimizer's step takes `step_s`; `comm_bars` of tensor-parallel
/// communication in each stage, spread over the step.
[[nodiscard]] ScheduleChart one_forward_one_backward(std::int64_t stages, std::int64_t microbatches,
                                                     std::int64_t comm_bars,
                                                     std::int64_t ranks_per_stage, double step_s);

}  // namespace shardsim::samples
