#pragma once

#include "strategies/mesh.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// The axes of a resolved scenario. Whether stages are placed in a V is the schedule's to say.
[[nodiscard]] MeshShape mesh_shape_of(const ParallelismSpec& parallelism);

}  // namespace shardsim
