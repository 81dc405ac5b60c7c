#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "sim/app/calibrate/fit_correction.hpp"
#include "sim/app/collective/tested_operation.hpp"

namespace shardsim {

/// What NCCL's model says of an operation by all ranks of a cluster, of each size: without what the
/// cluster's overrides correct, with the algorithms and protocols that they allow. Sizes in bytes
/// as nccl-tests has them: of the larger buffer of a rank. Measured times are left 0. REQUIRES:
/// cluster.nccl, two ranks or more.
[[nodiscard]] std::vector<CalibrationPoint> price_sizes(const Cluster& cluster,
                                                        TestedOperation operation,
                                                        const std::vector<std::int64_t>& sizes);

}  // namespace shardsim
