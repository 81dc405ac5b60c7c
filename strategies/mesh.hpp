#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/communicator.hpp"

// The ranks of a run as a mesh with one axis per kind of parallelism.
namespace shardsim {

/// Which axis changes fastest from one rank to the next. Tensor parallelism talks most, so its
/// ranks are neighbours by default, as in Megatron-LM ("tp-cp-ep-dp-pp") and torchtitan. The
/// specification's HybridShardedOptimizer counts data-parallel ranks fastest instead. Context
/// parallelism always comes right before data parallelism, whose gradients it shares.
enum class RankOrder : std::uint8_t { tp_dp_pp, dp_tp_pp };

/// A rank's place on every axis.
struct MeshPlace {
  int tp = 0;
  int cp = 0;
  int dp_shard = 0;
  int dp_replicate = 0;
  int pp = 0;

  friend bool operator==(const MeshPlace&, const MeshPlace&) = default;
};

/// Weights of which ranks keep copies, or shards: all but the experts' belong to every rank of a
/// stage with the same tensor-parallel place; an expert's to those that have this expert.
enum class WeightKind : std::uint8_t { dense, expert };

/// Sizes of the axes; their product is the number of ranks, to which ep does not contribute.
/// dp_shard is always faster than dp_replicate, pp the slowest.
///
/// Ranks that see different parts of the same samples (cp) keep the same weights, as those that see
/// different samples do: weights are sharded over dp_shard x cp ranks.
///
/// ep groups are made of the tp x cp x dp_shard ranks of a stage and replica. They are counted with
/// tp fastest and dp_shard slowest, ep neighbours each: Megatron-LM's folding without
/// tensor-parallel experts. An expert's weights are sharded (or copied) over the
/// tp x cp x dp_shard / ep ranks that have it.
struct MeshShape {
  int dp_shard = 1;
  int dp_replicate = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;
  RankOrder order = RankOrder::tp_dp_pp;
  /// Stages go down the pipeline ranks and up again (V placement), which takes other edges.
  bool v_placement = false;
  /// Numbers of neighbouring tensor-parallel ranks that have copies of parts (TensorSplit): each is
  /// more than one and divides tp. Their gradients are summed over groups of these ranks.
  std::vector<int> tp_copies = {};
  /// Whether ranks that have each of the parts once form groups, too.
  bool joins_tp_parts = false;

  /// Ranks that see different samples.
  [[nodiscard]] int data_size() const { return dp_shard * dp_replicate; }
  [[nodiscard]] int size() const { return data_size() * cp * tp * pp; }
  /// Ranks among which weights of a kind may be cut into shards, and which of them a place is. ep
  /// divides tp x cp x dp_shard.
  [[nodiscard]] int num_shards(WeightKind kind = WeightKind::dense) const;
  [[nodiscard]] int shard_of(const MeshPlace& place, WeightKind kind = WeightKind::dense) const;
  /// All ranks with weights of a kind, shards and their replicas, and which of them a place is.
  [[nodiscard]] int num_owners(WeightKind kind = WeightKind::dense) const {
    return num_shards(kind) * dp_replicate;
  }
  [[nodiscard]] int owner_of(const MeshPlace& place, WeightKind kind = WeightKind::dense) const {
    return place.dp_replicate * num_shards(kind) + shard_of(place, kind);
  }
  /// Whether other ranks have copies of an expert than of the weights around it.
  [[nodiscard]] bool experts_apart() const { return ep > 1; }
  /// Place among the ranks of a stage and replica, in the order that expert-parallel groups cut.
  [[nodiscard]] int expert_index(const MeshPlace& place) const {
    return (place.dp_shard * cp + place.cp) * tp + place.tp;
  }
  /// Place in an expert-parallel group.
  [[nodiscard]] int ep_of(const MeshPlace& place) const { return expert_index(place) % ep; }
  /// A bijection between [0, size()) and places.
  [[nodiscard]] MeshPlace place_of(int rank) const;
  [[nodiscard]] int rank_of(const MeshPlace& place) const;
};

/// The ranks that keep the same weights, as the synchronization of their gradients sees them.
struct ReplicaGroups {
  // All null where there is but one rank.
  Communicator* shard = nullptr;      ///< Those that may cut the weights among themselves.
  Communicator* replicate = nullptr;  ///< Those with the same shard.
  Communicator* all = nullptr;        ///< Both: whose gradients are added.
  int num_shards = 1;
  int shard_rank = 0;  ///< In `shard`.
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
  [[nodiscard]] int cp() const { return place_.cp; }
  [[nodiscard]] int ep() const { return shape_.ep_of(place_); }
  /// Position among all ranks that see different samples.
  [[nodiscard]] int data_rank() const {
    return place_.dp_replicate * shape_.dp_shard + place_.dp_shard;
  }
  [[nodiscard]] int data_size() const { return shape_.data_size(); }
  [[nodiscard]] bool is_first_stage() const { return place_.pp == 0; }
  [[nodiscard]] bool is_last_stage() const { return place_.pp == shape_.pp - 1; }

  /// Without expert parallelism, experts have the groups of dense weights: like norms, they are
  /// whole on every tensor-parallel rank.
  [[nodiscard]] ReplicaGroups replicas(WeightKind kind = WeightKind::dense) const;

  // All null where the axis has one rank: there is no other rank to talk to.
  /// All ranks that see different tokens: dp_replicate x dp_shard x cp.
  [[nodiscard]] Communicator* data_group() const { return dense_.all.get(); }
  [[nodiscard]] Communicator* tp_group() const { return tp_group_.get(); }
  /// The ranks that have copies of this rank's part. REQUIRES: `copies` is in shape().tp_copies.
  [[nodiscard]] Communicator* tp_copies_group(int copies) const {
    return of_copies(copies).same.get();
  }
  /// Ranks that have each part once, this rank's among them. Without copies these are all.
  /// REQUIRES: shape().joins_tp_parts, where there are copies.
  [[nodiscard]] Communicator* tp_parts_group(int copies) const {
    return copies == 1 ? tp_group_.get() : of_copies(copies).parts.get();
  }
  [[nodiscard]] Communicator* cp_group() const { return cp_group_.get(); }
  [[nodiscard]] Communicator* ep_group() const { return ep_group_.get(); }
  /// All pipeline stages: scalars only. Activations and gradients between stages have edges of
  /// their own.
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
  struct Replicas {
    std::unique_ptr<Communicator> shard;
    std::unique_ptr<Communicator> replicate;
    std::unique_ptr<Communicator> all;
  };
  struct TensorCopies {
    int copies;
    std::unique_ptr<Communicator> same;
    std::unique_ptr<Communicator> parts;
  };
  [[nodiscard]] const TensorCopies& of_copies(int copies) const;
  enum class Boundaries : std::uint8_t { even, odd, around };
  void make_replicas(Communicator& world, WeightKind kind, Replicas& made);
  void make_edges();
  void make_edge(Boundaries which, bool forward, bool up);

  MeshShape shape_;
  MeshPlace place_;
  Replicas dense_;
  Replicas expert_;  // Empty where experts_apart() is false.
  std::unique_ptr<Communicator> tp_group_;
  std::vector<TensorCopies> tp_copies_;
  std::unique_ptr<Communicator> cp_group_;
  std::unique_ptr<Communicator> ep_group_;
  std::unique_ptr<Communicator> pp_group_;
  std::unique_ptr<Communicator> embedding_group_;
  std::array<std::unique_ptr<Communicator>, kNumEdges> edges_;
};

}  // namespace shardsim
