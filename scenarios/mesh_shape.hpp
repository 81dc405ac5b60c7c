#pragma once

#include "strategies/mesh.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// The axes of a resolved scenario. The schedule decides whether stages are placed in a V.
[[nodiscard]] inline MeshShape mesh_shape_of(const ParallelismSpec& parallelism) {
  return {
      .dp_shard = static_cast<int>(parallelism.dp_shard),
      .dp_replicate = static_cast<int>(parallelism.dp_replicate),
      .tp = static_cast<int>(parallelism.tp),
      .pp = static_cast<int>(parallelism.pp),
      .cp = static_cast<int>(parallelism.cp),
      .ep = static_cast<int>(parallelism.ep),
      .order = parallelism.rank_order == "dp-tp-pp" ? RankOrder::dp_tp_pp : RankOrder::tp_dp_pp};
}

}  // namespace shardsim
