#pragma once

#include "backends/rank_span.hpp"

#include "strategies/mesh.hpp"

// The groups of a mesh, told without communication: for each group of Mesh, and of the two levels
// of context parallelism, the ranks in it, in their order. A size of 1 means that Mesh makes no
// such group. REQUIRES, for all: `place` is a place of `shape`.
namespace shardsim {

[[nodiscard]] RankSpan tensor_group(const MeshShape& shape, const MeshPlace& place);
/// The ranks of a tensor group that have copies of a part, `copies` neighbours each, and those that
/// have each part once. REQUIRES: `copies` divides shape.tp.
[[nodiscard]] RankSpan tensor_copies_group(const MeshShape& shape, const MeshPlace& place,
                                           int copies);
[[nodiscard]] RankSpan tensor_parts_group(const MeshShape& shape, const MeshPlace& place,
                                          int copies);
[[nodiscard]] RankSpan context_group(const MeshShape& shape, const MeshPlace& place);
/// The ranks of a context group that exchange heads, `degree` neighbours each, and those that have
/// the same heads. REQUIRES: `degree` divides shape.cp.
[[nodiscard]] RankSpan ulysses_group(const MeshShape& shape, const MeshPlace& place, int degree);
[[nodiscard]] RankSpan ring_group(const MeshShape& shape, const MeshPlace& place, int degree);
[[nodiscard]] RankSpan expert_group(const MeshShape& shape, const MeshPlace& place);
/// The ranks of an expert group with the same place on their nodes, and those on the same node.
/// REQUIRES: shape.dispatch_nodes > 0.
[[nodiscard]] RankSpan expert_across_group(const MeshShape& shape, const MeshPlace& place);
[[nodiscard]] RankSpan expert_inside_group(const MeshShape& shape, const MeshPlace& place);
/// The ranks with slices of the same experts, and those that have all experts together.
[[nodiscard]] RankSpan expert_tensor_group(const MeshShape& shape, const MeshPlace& place);
[[nodiscard]] RankSpan all_experts_group(const MeshShape& shape, const MeshPlace& place);

/// ReplicaGroups: shard, replicate and all.
[[nodiscard]] RankSpan shard_group(const MeshShape& shape, const MeshPlace& place, WeightKind kind);
[[nodiscard]] RankSpan replicate_group(const MeshShape& shape, const MeshPlace& place);
[[nodiscard]] RankSpan owner_group(const MeshShape& shape, const MeshPlace& place, WeightKind kind);

[[nodiscard]] RankSpan pipeline_group(const MeshShape& shape, const MeshPlace& place);
/// The first and the last rank of the pipeline that `place` is in.
[[nodiscard]] RankSpan embedding_group(const MeshShape& shape, const MeshPlace& place);
/// An edge of that pipeline: first the sender, then the receiver, each by its pipeline rank.
[[nodiscard]] RankSpan edge_group(const MeshShape& shape, const MeshPlace& place, int sender,
                                  int receiver);

// The same as parts of a group, `whole`, whose member `member` is this rank.
/// Parts of a context group.
[[nodiscard]] RankSpan ulysses_part(const RankSpan& whole, int member, int degree);
[[nodiscard]] RankSpan ring_part(const RankSpan& whole, int member, int degree);
/// A part of a pipeline group.
[[nodiscard]] RankSpan edge_part(const RankSpan& whole, int sender, int receiver);

}  // namespace shardsim
