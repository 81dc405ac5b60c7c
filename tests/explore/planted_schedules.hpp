#pragma once

#include "sim/run/run.hpp"

#include "tests/mutants/faulty_communicator.hpp"

// Bugs that show under some schedules only.
namespace shardsim::test {

/// Sends of a batch are waited for one by one before its receives are posted: neighbours that
/// exchange hang where sends wait.
[[nodiscard]] Faults sends_first();

/// Gradients go wrong where another rank than 0 has started first.
[[nodiscard]] RunHooks depends_on_who_is_first();

}  // namespace shardsim::test
