#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/communicator.hpp"

#include "strategies/mesh_shape.hpp"

// The ranks of a run as a mesh with one axis per kind of parallelism.
namespace shardsim {

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
  [[nodiscard]] int expert_part() const { return shape_.expert_part_of(place_); }
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
  /// Ranks that have other experts, of which each has the same slice.
  [[nodiscard]] Communicator* ep_group() const { return ep_group_.get(); }
  /// With dispatch by node: those with the same place on their nodes, and those on the same node.
  [[nodiscard]] Communicator* ep_across_group() const { return ep_across_group_.get(); }
  [[nodiscard]] Communicator* ep_inside_group() const { return ep_inside_group_.get(); }
  /// Ranks that have slices of the same experts.
  [[nodiscard]] Communicator* etp_group() const { return etp_group_.get(); }
  /// Both: ranks that have each part of a layer's experts once.
  [[nodiscard]] Communicator* expert_parts_group() const {
    if (shape_.etp == 1) return ep_group_.get();
    return shape_.ep == 1 ? etp_group_.get() : expert_parts_group_.get();
  }
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
  void make_dispatch(Communicator& world);
  void make_expert_slices(Communicator& world);
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
  std::unique_ptr<Communicator> ep_across_group_;
  std::unique_ptr<Communicator> ep_inside_group_;
  std::unique_ptr<Communicator> etp_group_;
  std::unique_ptr<Communicator> expert_parts_group_;  // Where both have more than one rank.
  std::unique_ptr<Communicator> pp_group_;
  std::unique_ptr<Communicator> embedding_group_;
  std::array<std::unique_ptr<Communicator>, kNumEdges> edges_;
};

}  // namespace shardsim
