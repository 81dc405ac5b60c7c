#include "strategies/mesh.hpp"

#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

MeshPlace MeshShape::place_of(int rank) const {
  MeshPlace place;
  const auto take = [&rank](int size) {
    const int coordinate = rank % size;
    rank /= size;
    return coordinate;
  };
  if (order == RankOrder::tp_dp_pp) place.tp = take(tp);
  place.dp_shard = take(dp_shard);
  place.dp_replicate = take(dp_replicate);
  if (order == RankOrder::dp_tp_pp) place.tp = take(tp);
  place.pp = rank;
  return place;
}

int MeshShape::rank_of(const MeshPlace& place) const {
  const int data = place.dp_replicate * dp_shard + place.dp_shard;
  const int in_stage =
      order == RankOrder::tp_dp_pp ? data * tp + place.tp : place.tp * data_size() + data;
  return place.pp * data_size() * tp + in_stage;
}

namespace {

void require_size(const MeshShape& shape, int ranks) {
  if (shape.size() == ranks) return;
  throw UsageError("E0701",
                   "dp_shard " + std::to_string(shape.dp_shard) + " x dp_replicate " +
                       std::to_string(shape.dp_replicate) + " x tp " + std::to_string(shape.tp) +
                       " x pp " + std::to_string(shape.pp) + " is not " + std::to_string(ranks) +
                       " ranks",
                   "the sizes of all axes multiply to the number of ranks");
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : shape_(shape), place_(shape.place_of(world.rank())) {
  require_size(shape, world.size());
  // Ranks that differ on one axis alone have the same color: their rank at 0 on that axis.
  const auto without = [&](int MeshPlace::*axis) {
    MeshPlace origin = place_;
    origin.*axis = 0;
    return shape_.rank_of(origin);
  };
  if (shape.tp > 1) tp_group_ = world.split(without(&MeshPlace::tp), place_.tp, "tp");
  if (shape.dp_shard > 1) {
    shard_group_ = world.split(without(&MeshPlace::dp_shard), place_.dp_shard, "dp_shard");
  }
  if (shape.dp_replicate > 1) {
    replicate_group_ =
        world.split(without(&MeshPlace::dp_replicate), place_.dp_replicate, "dp_replicate");
  }
  if (shape.data_size() > 1) {
    const int model_part = place_.pp * shape.tp + place_.tp;
    data_group_ = world.split(model_part, data_rank(), "dp");
  }
  if (shape.pp > 1) {
    pp_group_ = world.split(without(&MeshPlace::pp), place_.pp, "pp");
    make_edges();
  }
}

void Mesh::make_edges() {
  const bool is_end = is_first_stage() || is_last_stage();
  auto ends = pp_group_->split(is_end ? 1 : 0, place_.pp, "embedding");
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
  const char* const down_name = forward ? "pp_forward" : "pp_backward";
  const char* const up_name = forward ? "pp_up_forward" : "pp_up_backward";
  auto pair = pp_group_->split(color, sends ? 0 : 1, up ? up_name : down_name);
  if (color == 0) return;  // All who have no such boundary.
  const Edge edge = forward ? (sends ? Edge::forward_out : Edge::forward_in)
                            : (sends ? Edge::backward_out : Edge::backward_in);
  constexpr std::size_t kFirstUp = static_cast<std::size_t>(Edge::up_forward_out);
  edges_.at(static_cast<std::size_t>(edge) + (up ? kFirstUp : 0)) = std::move(pair);
}

}  // namespace shardsim
