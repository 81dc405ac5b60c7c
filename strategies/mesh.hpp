#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "backends/communicator.hpp"

// The ranks of a run as a mesh with one axis per kind of parallelism.
namespace shardsim {

/// Which axis changes fastest from one rank to the next. Tensor parallelism talks most, so its
/// ranks are neighbours by default, as in Megatron-LM ("tp-cp-ep-dp-pp") and torchtitan. The
/// specification's HybridShardedOptimizer counts data-parallel ranks fastest instead.
enum class RankOrder : std::uint8_t { tp_dp_pp, dp_tp_pp };

/// A rank's place on every axis.
struct MeshPlace {
  int tp = 0;
  int dp_shard = 0;
  int dp_replicate = 0;
  int pp = 0;

  friend bool operator==(const MeshPlace&, const MeshPlace&) = default;
};

/// Sizes of the axes; their product is the number of ranks. dp_shard is always faster than
/// dp_replicate, pp the slowest.
struct MeshShape {
  int dp_shard = 1;
  int dp_replicate = 1;
  int tp = 1;
  int pp = 1;
  RankOrder order = RankOrder::tp_dp_pp;
  /// Stages go down the pipeline ranks and up again (V placement), which takes other edges.
  bool v_placement = false;

  [[nodiscard]] int data_size() const { return dp_shard * dp_replicate; }
  [[nodiscard]] int size() const { return data_size() * tp * pp; }
  /// A bijection between [0, size()) and places.
  [[nodiscard]] MeshPlace place_of(int rank) const;
  [[nodiscard]] int rank_of(const MeshPlace& place) const;
};

/// This rank's coordinates, and one communicator per axis it shares with other ranks. All ranks
/// must construct theirs at the same point of the program: groups are made by collective splits.
/// Every axis gets a communicator, and so a stream, of its own, even where two have the same
/// members.
class Mesh {
 public:
  /// Throws UsageError if the shape does not have world.size() ranks.
  Mesh(Communicator& world, const MeshShape& shape);

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] const MeshPlace& place() const { return place_; }
  [[nodiscard]] int tp() const { return place_.tp; }
  [[nodiscard]] int pp() const { return place_.pp; }
  [[nodiscard]] int dp_shard() const { return place_.dp_shard; }
  [[nodiscard]] int dp_replicate() const { return place_.dp_replicate; }
  /// Position among all ranks that see different data.
  [[nodiscard]] int data_rank() const {
    return place_.dp_replicate * shape_.dp_shard + place_.dp_shard;
  }
  [[nodiscard]] int data_size() const { return shape_.data_size(); }
  [[nodiscard]] bool is_first_stage() const { return place_.pp == 0; }
  [[nodiscard]] bool is_last_stage() const { return place_.pp == shape_.pp - 1; }

  // All null where the axis has one rank: there is nobody to talk to.
  [[nodiscard]] Communicator* shard_group() const { return shard_group_.get(); }
  [[nodiscard]] Communicator* replicate_group() const { return replicate_group_.get(); }
  /// All ranks that see different data: dp_replicate x dp_shard.
  [[nodiscard]] Communicator* data_group() const { return data_group_.get(); }
  [[nodiscard]] Communicator* tp_group() const { return tp_group_.get(); }
  /// All pipeline stages: scalars only. What stages send each other has edges of its own.
  [[nodiscard]] Communicator* pp_group() const { return pp_group_.get(); }
  /// First and last stage, for tied embeddings. Null on the stages between.
  [[nodiscard]] Communicator* embedding_group() const { return embedding_group_.get(); }

  /// One direction of one boundary between pipeline ranks, as this rank sees it: a communicator of
  /// two, in which the sender is 0 and the receiver 1. Stages are on a ring: the last pipeline rank
  /// sends forward to the first, too (model chunks). Null with one stage. With V placement there is
  /// no ring, and chunks that go up the ranks have edges of their own: their forward goes to the
  /// previous rank, their backward to the next.
  enum class Edge : std::uint8_t {
    forward_out,
    forward_in,
    backward_out,
    backward_in,
    up_forward_out,
    up_forward_in,
    up_backward_out,
    up_backward_in,
  };
  static constexpr int kNumEdges = 8;
  [[nodiscard]] Communicator* edge(Edge which) const {
    return edges_[static_cast<std::size_t>(which)].get();
  }

 private:
  enum class Boundaries : std::uint8_t { even, odd, around };
  void make_edges();
  void make_edge(Boundaries which, bool forward, bool up);

  MeshShape shape_;
  MeshPlace place_;
  std::unique_ptr<Communicator> shard_group_;
  std::unique_ptr<Communicator> replicate_group_;
  std::unique_ptr<Communicator> data_group_;
  std::unique_ptr<Communicator> tp_group_;
  std::unique_ptr<Communicator> pp_group_;
  std::unique_ptr<Communicator> embedding_group_;
  std::array<std::unique_ptr<Communicator>, kNumEdges> edges_;
};

}  // namespace shardsim
