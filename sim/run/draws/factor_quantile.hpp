#pragma once

#include "scenarios/machine_spec.hpp"

namespace shardsim {

/// The factor that a share of all draws stays below (FactorShape); 1 without a distribution.
/// REQUIRES: 0 < share < 1.
[[nodiscard]] double factor_quantile(const FactorSpec& factor, double share);

}  // namespace shardsim
