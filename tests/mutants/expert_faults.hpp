#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/mutants/faulty_communicator.hpp"

// Bugs of ranks with experts: in their gradients' sums, and in the rows of tokens that travel.
namespace shardsim::test {

/// Changes experts' gradients before their reductions.
[[nodiscard]] Faults before_expert_reductions(const std::function<void(const Tensor&)>& change);
/// Drops these reductions.
[[nodiscard]] Faults no_expert_reduction();
/// One rank loses a token of each exchange with this label.
[[nodiscard]] Faults lost_token(const std::string& label);
/// One rank's first row of each exchange with this label counts twice.
[[nodiscard]] Faults doubled_token(const std::string& label);
/// Replaces every row that one rank sends under this label by the row before it.
[[nodiscard]] Faults shifted_rows(const std::string& label);
/// One rank's rows that only fill up, which are zeros, have large numbers.
[[nodiscard]] Faults counted_padding(const std::string& label);

}  // namespace shardsim::test
