#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "sim/accuracy/fit_correction.hpp"
#include "sim/collective/tested_operation.hpp"

namespace shardsim {

/// The prices of NCCL's model for an operation by all ranks of a cluster, one per size. They leave
/// out the corrections of the cluster's overrides, and use the algorithms and protocols that these
/// allow. Sizes are those of nccl-tests: bytes of the larger buffer of a rank. Measured times are
/// left 0. REQUIRES: cluster.nccl, two ranks or more.
[[nodiscard]] std::vector<CalibrationPoint> price_sizes(const Cluster& cluster,
                                                        TestedOperation operation,
                                                        const std::vector<std::int64_t>& sizes);

}  // namespace shardsim
