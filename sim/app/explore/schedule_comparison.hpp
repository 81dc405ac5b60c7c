#pragma once

#include <optional>
#include <string>

#include "reports/result.hpp"

#include "sim/harness/schedule.hpp"

// What may differ between two runs of one scenario under two schedules, and what may not.
namespace shardsim {

/// Nothing, or the first metric that differs and must not: with equal modes of sends every metric
/// and the exit code are equal, bit by bit, whatever the order of ranks. Otherwise those are that
/// no clock decides: bytes, calls, memory, routing, and what the oracle says.
[[nodiscard]] std::optional<Diagnosis> compare_schedules(const Schedule& first,
                                                         const Result& first_result,
                                                         const Schedule& second,
                                                         const Result& second_result);

}  // namespace shardsim
