#pragma once

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// The bug of a strategy that reduces once per step, but starts on the first microbatch instead of
// the last: what later microbatches add to a bucket is not in what was sent.
namespace shardsim::test {

/// Runs a scenario with the bug on all ranks; exit code, diagnosis and what the oracle says as
/// run_scenario gives them. REQUIRES: fp64, no pipeline, no reduction of every microbatch.
[[nodiscard]] Result run_reducing_first_microbatch(const Scenario& scenario);

}  // namespace shardsim::test
