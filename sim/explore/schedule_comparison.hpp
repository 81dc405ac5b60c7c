#pragma once

#include <optional>
#include <string>

#include "reports/result.hpp"

#include "sim/harness/schedule.hpp"

// The allowed differences between two runs of one scenario under two schedules.
namespace shardsim {

/// Nothing, or the first metric that differs and must not. With equal modes of sends every metric
/// and the exit code are equal, bit by bit, whatever the order of ranks. Otherwise only metrics
/// that no clock affects must be equal: bytes, calls, memory, routing, and the oracle's.
[[nodiscard]] std::optional<Diagnosis> compare_schedules(const Schedule& first,
                                                         const Result& first_result,
                                                         const Schedule& second,
                                                         const Result& second_result);

}  // namespace shardsim
