#include "strategies/mesh_groups.hpp"

namespace shardsim {

namespace {

RankSpan::Axis axis_of(const MeshShape& shape, int MeshPlace::*axis, int size) {
  MeshPlace next;
  next.*axis = 1;
  return {.size = size, .stride = shape.rank_of(next)};
}

// All ranks that differ from `place` on one axis alone.
RankSpan along(const MeshShape& shape, MeshPlace place, int MeshPlace::*axis, int size) {
  place.*axis = 0;
  return {.base = shape.rank_of(place), .axes = {axis_of(shape, axis, size)}, .size = size};
}

// The ranks of a stage and replica in the order in which expert groups count them; with those of
// the other replicas behind them if `all_replicas`. It has no members yet.
RankSpan expert_grid(const MeshShape& shape, MeshPlace place, bool all_replicas) {
  place.tp = 0;
  place.cp = 0;
  place.dp_shard = 0;
  const int replicas = all_replicas ? shape.dp_replicate : 1;
  if (all_replicas) place.dp_replicate = 0;
  return {
      .base = shape.rank_of(place),
      .axes = {axis_of(shape, &MeshPlace::tp, shape.tp), axis_of(shape, &MeshPlace::cp, shape.cp),
               axis_of(shape, &MeshPlace::dp_shard, shape.dp_shard),
               axis_of(shape, &MeshPlace::dp_replicate, replicas)}};
}

bool is_apart(const MeshShape& shape, WeightKind kind) {
  return kind == WeightKind::expert && shape.experts_apart();
}

}  // namespace

RankSpan tensor_group(const MeshShape& shape, const MeshPlace& place) {
  return along(shape, place, &MeshPlace::tp, shape.tp);
}

RankSpan tensor_copies_group(const MeshShape& shape, const MeshPlace& place, int copies) {
  return tensor_group(shape, place).part(place.tp / copies * copies, 1, copies);
}

RankSpan tensor_parts_group(const MeshShape& shape, const MeshPlace& place, int copies) {
  return tensor_group(shape, place).part(place.tp % copies, copies, shape.tp / copies);
}

RankSpan context_group(const MeshShape& shape, const MeshPlace& place) {
  return along(shape, place, &MeshPlace::cp, shape.cp);
}

RankSpan ulysses_part(const RankSpan& whole, int member, int degree) {
  return whole.part(member / degree * degree, 1, degree);
}

RankSpan ring_part(const RankSpan& whole, int member, int degree) {
  return whole.part(member % degree, degree, whole.size / degree);
}

RankSpan ulysses_group(const MeshShape& shape, const MeshPlace& place, int degree) {
  return ulysses_part(context_group(shape, place), place.cp, degree);
}

RankSpan ring_group(const MeshShape& shape, const MeshPlace& place, int degree) {
  return ring_part(context_group(shape, place), place.cp, degree);
}

RankSpan all_experts_group(const MeshShape& shape, const MeshPlace& place) {
  RankSpan group = expert_grid(shape, place, false);
  group.first = shape.expert_index(place) - shape.expert_part_of(place);
  group.size = shape.expert_parts();
  return group;
}

RankSpan expert_group(const MeshShape& shape, const MeshPlace& place) {
  return all_experts_group(shape, place).part(shape.etp_of(place), shape.etp, shape.ep);
}

RankSpan expert_across_group(const MeshShape& shape, const MeshPlace& place) {
  const int ranks = shape.dispatch_ranks();
  return expert_group(shape, place).part(shape.ep_of(place) % ranks, ranks, shape.dispatch_nodes);
}

RankSpan expert_inside_group(const MeshShape& shape, const MeshPlace& place) {
  const int ranks = shape.dispatch_ranks();
  return expert_group(shape, place).part(shape.ep_of(place) / ranks * ranks, 1, ranks);
}

RankSpan expert_tensor_group(const MeshShape& shape, const MeshPlace& place) {
  return all_experts_group(shape, place).part(shape.ep_of(place) * shape.etp, 1, shape.etp);
}

RankSpan shard_group(const MeshShape& shape, const MeshPlace& place, WeightKind kind) {
  RankSpan group = expert_grid(shape, place, false);
  group.size = shape.num_shards(kind);
  if (is_apart(shape, kind)) {
    group.first = shape.expert_part_of(place);
    group.step = shape.expert_parts();
  } else {
    group.first = place.tp;
    group.step = shape.tp;
  }
  return group;
}

RankSpan replicate_group(const MeshShape& shape, const MeshPlace& place) {
  return along(shape, place, &MeshPlace::dp_replicate, shape.dp_replicate);
}

RankSpan owner_group(const MeshShape& shape, const MeshPlace& place, WeightKind kind) {
  RankSpan group = shard_group(shape, place, kind);
  const RankSpan grid = expert_grid(shape, place, true);
  group.base = grid.base;
  group.axes = grid.axes;
  group.size = shape.num_owners(kind);
  return group;
}

RankSpan pipeline_group(const MeshShape& shape, const MeshPlace& place) {
  return along(shape, place, &MeshPlace::pp, shape.pp);
}

RankSpan embedding_group(const MeshShape& shape, const MeshPlace& place) {
  return edge_group(shape, place, 0, shape.pp - 1);
}

RankSpan edge_part(const RankSpan& whole, int sender, int receiver) {
  if (sender == receiver) return whole.part(sender, 1, 1);
  return whole.part(sender, receiver - sender, 2);
}

RankSpan edge_group(const MeshShape& shape, const MeshPlace& place, int sender, int receiver) {
  return edge_part(pipeline_group(shape, place), sender, receiver);
}

}  // namespace shardsim
