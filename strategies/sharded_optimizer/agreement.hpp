#pragma once

#include <string>

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

#include "strategies/checkpoint/checkpoint_error.hpp"

// Errors that one rank sees and all must raise. No rank throws before all have met: one that left
// early would leave the others waiting.
namespace shardsim {

/// The worst status of all ranks, the same on each of them; with its detail on the rank that it is
/// of. Collective: one scalar all_reduce.
[[nodiscard]] SaveStatus agree(Runtime& runtime, Communicator& world, const SaveStatus& own);

/// Whether all ranks give the same number, below 2^53; the same answer on each. True without data.
/// Collective: one all_reduce of two scalars.
[[nodiscard]] bool is_equal_everywhere(Runtime& runtime, Communicator& world, std::int64_t own);

/// Throws CheckpointError unless the status is ok. `what`: that could not be loaded.
void raise_load_failure(const SaveStatus& status, const std::string& what);

}  // namespace shardsim
