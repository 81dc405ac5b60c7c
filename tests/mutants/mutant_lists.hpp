#pragma once

#include <vector>

#include "tests/mutants/mutant.hpp"

// Mutants that consist of a scenario and faults of its communication, so that a test may run them
// in another precision, too.
namespace shardsim::test {

/// Mutants of tensor and sequence parallelism, tied weights and the norm; no pipeline messages.
[[nodiscard]] std::vector<Mutant> model_parallel_mutants();
[[nodiscard]] std::vector<Mutant> context_parallel_mutants();
/// Mutants of experts' gradients and of the rows of tokens that travel.
[[nodiscard]] std::vector<Mutant> expert_mutants();

}  // namespace shardsim::test
