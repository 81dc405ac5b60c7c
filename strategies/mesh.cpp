#include "strategies/mesh.hpp"

#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/named_groups.hpp"

namespace shardsim {

MeshPlace MeshShape::place_of(int rank) const {
  MeshPlace place;
  const auto take = [&rank](int size) {
    const int coordinate = rank % size;
    rank /= size;
    return coordinate;
  };
  if (order == RankOrder::tp_dp_pp) place.tp = take(tp);
  place.cp = take(cp);
  place.dp_shard = take(dp_shard);
  place.dp_replicate = take(dp_replicate);
  if (order == RankOrder::dp_tp_pp) place.tp = take(tp);
  place.pp = rank;
  return place;
}

int MeshShape::rank_of(const MeshPlace& place) const {
  const int owner = owner_of(place);
  const int in_stage =
      order == RankOrder::tp_dp_pp ? owner * tp + place.tp : place.tp * num_owners() + owner;
  return place.pp * num_owners() * tp + in_stage;
}

int MeshShape::num_shards(WeightKind kind) const {
  const bool apart = kind == WeightKind::expert && experts_apart();
  return apart ? dp_shard * cp * tp / ep : dp_shard * cp;
}

int MeshShape::shard_of(const MeshPlace& place, WeightKind kind) const {
  const bool apart = kind == WeightKind::expert && experts_apart();
  return apart ? expert_index(place) / ep : place.dp_shard * cp + place.cp;
}

namespace {

void require_mesh_size(const MeshShape& shape, int ranks) {
  if (shape.size() != ranks) {
    throw UsageError(
        "E0701",
        concat("dp_shard ", shape.dp_shard, " x dp_replicate ", shape.dp_replicate, " x cp ",
               shape.cp, " x tp ", shape.tp, " x pp ", shape.pp, " is not ", ranks, " ranks"),
        "the sizes of all axes multiply to the number of ranks");
  }
  if (shape.dp_shard * shape.cp * shape.tp % shape.ep != 0) {
    throw UsageError("E0703",
                     concat("ep ", shape.ep, " does not divide dp_shard ", shape.dp_shard, " x cp ",
                            shape.cp, " x tp ", shape.tp),
                     "ep regroups these ranks: take a divisor of their number");
  }
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : shape_(shape), place_(shape.place_of(world.rank())) {
  require_mesh_size(shape, world.size());
  // Ranks that differ on one axis alone have the same color: their rank at 0 on that axis.
  const auto without = [&](int MeshPlace::*axis) {
    MeshPlace origin = place_;
    origin.*axis = 0;
    return shape_.rank_of(origin);
  };
  if (shape.tp > 1)
    tp_group_ = world.split(without(&MeshPlace::tp), place_.tp, named_group::kTp.name);
  if (shape.cp > 1)
    cp_group_ = world.split(without(&MeshPlace::cp), place_.cp, named_group::kCp.name);
  make_replicas(world, WeightKind::dense, dense_);
  if (shape.experts_apart()) {
    const int group = (place_.pp * shape.dp_replicate + place_.dp_replicate) *
                          shape.num_shards(WeightKind::expert) +
                      shape.shard_of(place_, WeightKind::expert);
    ep_group_ = world.split(group, ep(), named_group::kEp.name);
    make_replicas(world, WeightKind::expert, expert_);
  }
  if (shape.pp > 1) {
    pp_group_ = world.split(without(&MeshPlace::pp), place_.pp, named_group::kPp.name);
    make_edges();
  }
}

void Mesh::make_replicas(Communicator& world, WeightKind kind, Replicas& made) {
  const bool is_dense = kind == WeightKind::dense;
  // Those with the same weights have the same part of the model.
  const int part = place_.pp * (is_dense ? shape_.tp : shape_.ep) + (is_dense ? place_.tp : ep());
  const int shards = shape_.num_shards(kind);
  const int shard = shape_.shard_of(place_, kind);
  if (shards > 1) {
    made.shard =
        world.split(part * shape_.dp_replicate + place_.dp_replicate, shard,
                    (is_dense ? named_group::kDpShard : named_group::kDpShardExperts).name);
  }
  if (shape_.dp_replicate > 1) {
    made.replicate =
        world.split(part * shards + shard, place_.dp_replicate,
                    (is_dense ? named_group::kDpReplicate : named_group::kDpReplicateExperts).name);
  }
  if (shape_.num_owners(kind) > 1) {
    made.all = world.split(part, shape_.owner_of(place_, kind),
                           (is_dense ? named_group::kDp : named_group::kDpExperts).name);
  }
}

ReplicaGroups Mesh::replicas(WeightKind kind) const {
  const bool apart = kind == WeightKind::expert && shape_.experts_apart();
  const Replicas& of_kind = apart ? expert_ : dense_;
  return {of_kind.shard.get(), of_kind.replicate.get(), of_kind.all.get(), shape_.num_shards(kind),
          shape_.shard_of(place_, kind)};
}

void Mesh::make_edges() {
  const bool is_end = is_first_stage() || is_last_stage();
  auto ends = pp_group_->split(is_end ? 1 : 0, place_.pp, named_group::kEmbedding.name);
  if (is_end) embedding_group_ = std::move(ends);
  // Boundary a lies between pipeline ranks a and a + 1, the last one between the last and the
  // first. Neighbouring boundaries share a rank, so they are made one after the other.
  for (const bool forward : {true, false}) {
    for (const Boundaries which : {Boundaries::even, Boundaries::odd}) {
      make_edge(which, forward, false);
      if (shape_.v_placement) make_edge(which, forward, true);
    }
    if (!shape_.v_placement) make_edge(Boundaries::around, forward, false);
  }
}

void Mesh::make_edge(Boundaries which, bool forward, bool up) {
  const int last = shape_.pp - 1;
  const auto is_meant = [&](int boundary) {
    if (which == Boundaries::around) return boundary == last;
    return boundary != last && boundary % 2 == (which == Boundaries::odd ? 1 : 0);
  };
  const int above = place_.pp;                              // The boundary to the next rank.
  const int below = place_.pp == 0 ? last : place_.pp - 1;  // That to the previous one.
  const bool starts_here = is_meant(above);
  const bool ends_here = is_meant(below);
  const int color = starts_here ? above + 1 : ends_here ? below + 1 : 0;
  const bool sends = starts_here == (forward != up);
  const NamedGroup& down_group = forward ? named_group::kPpForward : named_group::kPpBackward;
  const NamedGroup& up_group = forward ? named_group::kPpUpForward : named_group::kPpUpBackward;
  auto pair = pp_group_->split(color, sends ? 0 : 1, (up ? up_group : down_group).name);
  if (color == 0) return;  // All who have no such boundary.
  const Edge edge = forward ? (sends ? Edge::forward_out : Edge::forward_in)
                            : (sends ? Edge::backward_out : Edge::backward_in);
  constexpr std::size_t kFirstUp = static_cast<std::size_t>(Edge::up_forward_out);
  edges_.at(static_cast<std::size_t>(edge) + (up ? kFirstUp : 0)) = std::move(pair);
}

}  // namespace shardsim
