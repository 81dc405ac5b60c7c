#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/mutants/faulty_communicator.hpp"

// Bugs in what ranks do with experts: their gradients' sums, and the rows of tokens on their way.
namespace shardsim::test {

/// Reductions of experts' gradients do something else before they happen.
[[nodiscard]] Faults before_expert_reductions(const std::function<void(const Tensor&)>& change);
/// They do not happen.
[[nodiscard]] Faults no_expert_reduction();
/// One rank loses a token of each exchange with this label.
[[nodiscard]] Faults lost_token(const std::string& label);
/// Every row that one rank sends under this label takes the place of the one before it.
[[nodiscard]] Faults shifted_rows(const std::string& label);

}  // namespace shardsim::test
