#pragma once

#include <cstdint>
#include <vector>

// The axes of a mesh of ranks, and a rank's place on them, told without communication.
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

/// Sizes of the axes; their product is the number of ranks, to which ep and etp do not contribute.
/// dp_shard is always faster than dp_replicate, pp the slowest.
///
/// Ranks that see different parts of the same samples (cp) keep the same weights, as those that see
/// different samples do: weights are sharded over dp_shard x cp ranks.
///
/// Experts regroup the tp x cp x dp_shard ranks of a stage and replica, counted with tp fastest and
/// dp_shard slowest: etp neighbours have a slice of the same experts each, ep such groups one after
/// the other have all experts. This is Megatron-LM's order of its expert mesh, etp-ep-dp. The ranks
/// of an ep group are etp apart, so they have the same slice. A slice is sharded (or copied) over
/// the tp x cp x dp_shard / (ep x etp) ranks that have it.
struct MeshShape {
  int dp_shard = 1;
  int dp_replicate = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;
  int etp = 1;
  /// Nodes that an expert-parallel group lies on, its members node by node and equally many on
  /// each: tokens go once to each node. 0: they go once to each of their experts.
  int dispatch_nodes = 0;
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
  /// Ranks among which weights of a kind may be cut into shards, and which of them a place is.
  /// ep x etp divides tp x cp x dp_shard.
  [[nodiscard]] int num_shards(WeightKind kind = WeightKind::dense) const;
  [[nodiscard]] int shard_of(const MeshPlace& place, WeightKind kind = WeightKind::dense) const;
  /// All ranks with weights of a kind, shards and their replicas, and which of them a place is.
  [[nodiscard]] int num_owners(WeightKind kind = WeightKind::dense) const {
    return num_shards(kind) * dp_replicate;
  }
  [[nodiscard]] int owner_of(const MeshPlace& place, WeightKind kind = WeightKind::dense) const {
    return place.dp_replicate * num_shards(kind) + shard_of(place, kind);
  }
  /// Parts that a layer's experts are cut into: each is a slice of some of them.
  [[nodiscard]] int expert_parts() const { return ep * etp; }
  /// Whether other ranks have copies of an expert than of the weights around it.
  [[nodiscard]] bool experts_apart() const { return expert_parts() > 1; }
  /// Place among the ranks of a stage and replica, in the order that expert-parallel groups cut.
  [[nodiscard]] int expert_index(const MeshPlace& place) const {
    return (place.dp_shard * cp + place.cp) * tp + place.tp;
  }
  /// Which of those parts a rank has: slices of the same experts are neighbours.
  [[nodiscard]] int expert_part_of(const MeshPlace& place) const {
    return expert_index(place) % expert_parts();
  }
  /// Place in an expert-parallel group, and in an expert-tensor-parallel one.
  [[nodiscard]] int ep_of(const MeshPlace& place) const { return expert_part_of(place) / etp; }
  [[nodiscard]] int etp_of(const MeshPlace& place) const { return expert_part_of(place) % etp; }
  /// With dispatch by node: ranks of an expert-parallel group on each of its nodes.
  [[nodiscard]] int dispatch_ranks() const { return ep / dispatch_nodes; }
  /// A bijection between [0, size()) and places.
  [[nodiscard]] MeshPlace place_of(int rank) const;
  [[nodiscard]] int rank_of(const MeshPlace& place) const;
};

}  // namespace shardsim
