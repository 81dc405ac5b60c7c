#include "strategies/mesh.hpp"

#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : shape_(shape),
      dp_shard_(world.rank() % shape.dp_shard),
      dp_replicate_(world.rank() / shape.dp_shard) {
  if (shape.size() != world.size()) {
    throw UsageError("E0701",
                     "dp_shard " + std::to_string(shape.dp_shard) + " x dp_replicate " +
                         std::to_string(shape.dp_replicate) + " is not " +
                         std::to_string(world.size()) + " ranks",
                     "the sizes of all axes multiply to the number of ranks");
  }
  // Every axis gets a communicator, and so a stream, of its own, even where two have the same
  // members.
  if (shape.dp_shard > 1) shard_group_ = world.split(dp_replicate_, dp_shard_, "dp_shard");
  if (shape.dp_replicate > 1) {
    replicate_group_ = world.split(dp_shard_, dp_replicate_, "dp_replicate");
  }
  if (shape.size() > 1) data_group_ = world.split(0, data_rank(), "dp");
}

}  // namespace shardsim
