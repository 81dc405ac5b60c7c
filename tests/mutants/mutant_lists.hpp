#pragma once

#include <vector>

#include "tests/mutants/mutant.hpp"

// Mutants that are a scenario and faults of its communication, and nothing else: whoever runs them
// may run them otherwise, too.
namespace shardsim::test {

/// Of tensor and sequence parallelism, tied weights and the norm; without pipelines' messages.
[[nodiscard]] std::vector<Mutant> model_parallel_mutants();
[[nodiscard]] std::vector<Mutant> context_parallel_mutants();

}  // namespace shardsim::test
