#pragma once

#include <memory>

#include "backends/communicator.hpp"

// The ranks of a run as a mesh with one axis per kind of parallelism.
namespace shardsim {

/// Sizes of the axes; their product is the number of ranks. Rank order, fastest first: dp_shard,
/// dp_replicate (tp and cp will come before, pp after them, as in Megatron-LM and torchtitan).
struct MeshShape {
  int dp_shard = 1;
  int dp_replicate = 1;

  [[nodiscard]] int size() const { return dp_shard * dp_replicate; }
};

/// This rank's coordinates, and one communicator per axis it shares with other ranks. All ranks
/// must construct theirs at the same point of the program: groups are made by collective splits.
class Mesh {
 public:
  /// Throws UsageError if the shape does not have world.size() ranks.
  Mesh(Communicator& world, const MeshShape& shape);

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] int dp_shard() const { return dp_shard_; }
  [[nodiscard]] int dp_replicate() const { return dp_replicate_; }
  /// Position among all ranks that see different data.
  [[nodiscard]] int data_rank() const { return dp_replicate_ * shape_.dp_shard + dp_shard_; }
  [[nodiscard]] int data_size() const { return shape_.size(); }

  /// Null where the axis has one rank: there is nobody to talk to.
  [[nodiscard]] Communicator* shard_group() const { return shard_group_.get(); }
  [[nodiscard]] Communicator* replicate_group() const { return replicate_group_.get(); }
  /// All ranks that see different data: dp_replicate x dp_shard.
  [[nodiscard]] Communicator* data_group() const { return data_group_.get(); }

 private:
  MeshShape shape_;
  int dp_shard_;
  int dp_replicate_;
  std::unique_ptr<Communicator> shard_group_;
  std::unique_ptr<Communicator> replicate_group_;
  std::unique_ptr<Communicator> data_group_;
};

}  // namespace shardsim
