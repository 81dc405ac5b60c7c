#include "strategies/mesh.hpp"

#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/mesh_groups.hpp"
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
  return apart ? dp_shard * cp * tp / expert_parts() : dp_shard * cp;
}

int MeshShape::shard_of(const MeshPlace& place, WeightKind kind) const {
  const bool apart = kind == WeightKind::expert && experts_apart();
  return apart ? expert_index(place) / expert_parts() : place.dp_shard * cp + place.cp;
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
  if (shape.dp_shard * shape.cp * shape.tp % shape.expert_parts() != 0) {
    throw UsageError(
        "E0703",
        concat("ep ", shape.ep, shape.etp > 1 ? concat(" x etp ", shape.etp) : std::string(),
               " does not divide dp_shard ", shape.dp_shard, " x cp ", shape.cp, " x tp ",
               shape.tp),
        "experts regroup these ranks: take a divisor of their number");
  }
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : shape_(shape), place_(shape.place_of(world.rank())) {
  require_mesh_size(shape, world.size());
  if (shape.tp > 1) tp_group_ = world.subgroup(tensor_group(shape, place_), named_group::kTp.name);
  for (const int copies : shape.tp_copies) {
    TensorCopies& made = tp_copies_.emplace_back(TensorCopies{copies, nullptr, nullptr});
    made.same =
        world.subgroup(tensor_copies_group(shape, place_, copies), named_group::kTpCopies.name);
    if (!shape.joins_tp_parts) continue;
    made.parts =
        world.subgroup(tensor_parts_group(shape, place_, copies), named_group::kTpParts.name);
  }
  if (shape.cp > 1) cp_group_ = world.subgroup(context_group(shape, place_), named_group::kCp.name);
  make_replicas(world, WeightKind::dense, dense_);
  if (shape.experts_apart()) {
    if (shape.ep > 1) {
      ep_group_ = world.subgroup(expert_group(shape, place_), named_group::kEp.name);
    }
    make_dispatch(world);
    make_expert_slices(world);
    make_replicas(world, WeightKind::expert, expert_);
  }
  if (shape.pp > 1) {
    pp_group_ = world.subgroup(pipeline_group(shape, place_), named_group::kPp.name);
    make_edges();
  }
}

void Mesh::make_dispatch(Communicator& world) {
  if (shape_.dispatch_nodes == 0 || shape_.ep == 1) return;
  if (shape_.dispatch_nodes > 1) {
    ep_across_group_ =
        world.subgroup(expert_across_group(shape_, place_), named_group::kEpAcross.name);
  }
  if (shape_.dispatch_ranks() > 1) {
    ep_inside_group_ =
        world.subgroup(expert_inside_group(shape_, place_), named_group::kEpInside.name);
  }
}

void Mesh::make_expert_slices(Communicator& world) {
  if (shape_.etp == 1) return;
  etp_group_ = world.subgroup(expert_tensor_group(shape_, place_), named_group::kEtp.name);
  if (shape_.ep == 1) return;
  expert_parts_group_ =
      world.subgroup(all_experts_group(shape_, place_), named_group::kExpertParts.name);
}

const Mesh::TensorCopies& Mesh::of_copies(int copies) const {
  for (const TensorCopies& each : tp_copies_) {
    if (each.copies == copies) return each;
  }
  throw Error(ExitCode::internal, "E7017", "a mesh has no groups of copies of such a part");
}

void Mesh::make_replicas(Communicator& world, WeightKind kind, Replicas& made) {
  const bool is_dense = kind == WeightKind::dense;
  if (shape_.num_shards(kind) > 1) {
    made.shard =
        world.subgroup(shard_group(shape_, place_, kind),
                       (is_dense ? named_group::kDpShard : named_group::kDpShardExperts).name);
  }
  if (shape_.dp_replicate > 1) {
    made.replicate = world.subgroup(
        replicate_group(shape_, place_),
        (is_dense ? named_group::kDpReplicate : named_group::kDpReplicateExperts).name);
  }
  if (shape_.num_owners(kind) > 1) {
    made.all = world.subgroup(owner_group(shape_, place_, kind),
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
  const RankSpan ends = edge_part(RankSpan::line(shape_.pp), 0, shape_.pp - 1);
  embedding_group_ =
      pp_group_->subgroup(is_end ? ends : RankSpan::none(), named_group::kEmbedding.name);
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
  const int here = place_.pp;
  const int next = here == last ? 0 : here + 1;
  const int previous = here == 0 ? last : here - 1;
  const bool starts_here = is_meant(here);
  const bool ends_here = is_meant(previous);
  const bool sends = starts_here == (forward != up);
  const int other = starts_here ? next : previous;
  const RankSpan pair =
      edge_part(RankSpan::line(shape_.pp), sends ? here : other, sends ? other : here);
  const NamedGroup& down_group = forward ? named_group::kPpForward : named_group::kPpBackward;
  const NamedGroup& up_group = forward ? named_group::kPpUpForward : named_group::kPpUpBackward;
  // All members of the pipeline call it; some have no such boundary.
  auto made = pp_group_->subgroup(starts_here || ends_here ? pair : RankSpan::none(),
                                  (up ? up_group : down_group).name);
  if (made == nullptr) return;
  const Edge edge = forward ? (sends ? Edge::forward_out : Edge::forward_in)
                            : (sends ? Edge::backward_out : Edge::backward_in);
  constexpr std::size_t kFirstUp = static_cast<std::size_t>(Edge::up_forward_out);
  edges_.at(static_cast<std::size_t>(edge) + (up ? kFirstUp : 0)) = std::move(made);
}

}  // namespace shardsim
