#pragma once

#include <functional>

#include "strategies/optimizer/muon.hpp"

#include "tests/mutants/faulty_communicator.hpp"
#include "tests/mutants/wrapped_sync.hpp"

// Bugs in Muon. The ranks train with other settings than the scenario's, or a sum is not made.
namespace shardsim::test {

/// Every rank's gradient synchronization is made anew with the changed settings. REQUIRES: muon, no
/// experts that lie apart.
[[nodiscard]] WrapSync with_muon(const std::function<void(MuonOptions&)>& change);

/// Sums of products over the cut are not made: each rank goes on with its own term.
[[nodiscard]] Faults without_gram_sums();

}  // namespace shardsim::test
