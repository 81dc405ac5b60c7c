#pragma once

#include "strategies/mesh.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// The axes of a resolved scenario. The schedule decides whether stages are placed in a V.
[[nodiscard]] MeshShape mesh_shape_of(const ParallelismSpec& parallelism);

}  // namespace shardsim
