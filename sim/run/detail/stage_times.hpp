#pragma once

#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/mesh.hpp"

#include "reports/run_detail.hpp"
#include "sim/run/run_record.hpp"

namespace shardsim {

/// By pipeline rank: the last step of the rank that ends last there, and the fullest one's peak.
[[nodiscard]] std::vector<StageTime> stage_times(const FiberWorld& world, const RunRecord& record,
                                                 const MeshShape& mesh);

/// By pipeline rank, the fullest rank; of equal ranks, the lowest.
[[nodiscard]] std::vector<int> fullest_ranks(const FiberWorld& world, const MeshShape& mesh);

/// The least clock at which the last step begins on a rank.
[[nodiscard]] Time begin_of_last_step(const FiberWorld& world, const RunRecord& record);

}  // namespace shardsim
