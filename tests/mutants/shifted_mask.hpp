#pragma once

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// The bug of a ring whose masks are off by one where a block comes from another rank. The attention
// is written anew and plainly: each rank gathers all rows of its ring, and looks at pairs one by
// one.
namespace shardsim::test {

/// Runs a scenario whose queries see keys of other ranks as if they stood one position further on:
/// a causal mask leaves one key too many, and windows and chunks begin one later. Exit code,
/// diagnosis and what the oracle says as run_scenario gives them. REQUIRES: keys and values go
/// round a ring; fp64.
[[nodiscard]] Result run_with_shifted_mask(const Scenario& scenario);
/// The same by the right positions: no bug is left.
[[nodiscard]] Result run_with_plain_mask(const Scenario& scenario);

}  // namespace shardsim::test
