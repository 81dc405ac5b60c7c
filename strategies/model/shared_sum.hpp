#pragma once

#include "backends/runtime.hpp"
#include "backends/stochastic_rounding.hpp"

namespace shardsim {

/// Marks `y` as a sum whose terms ranks share where there are several. They round more often than
/// one device, which counts only while errors are drawn: then each element gets the errors of the
/// roundings that are more (StochasticRounding::round_more). Does nothing at any other time.
void round_shared_sum(Runtime& runtime, const Tensor& y, SumOver sum);

}  // namespace shardsim
