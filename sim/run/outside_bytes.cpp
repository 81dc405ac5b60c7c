#include "sim/run/outside_bytes.hpp"

#include "sim/hardware/outside_memory.hpp"
#include "sim/hardware/software.hpp"

namespace shardsim {

namespace {

class Outside {
 public:
  Outside(const Cluster& cluster, const MeshShape& mesh, int rank)
      : cluster_(cluster), mesh_(mesh), rank_(rank), place_(mesh.place_of(rank)) {}

  void add(const SourcedBytes& context) { bytes_ += context.bytes; }

  // Adds a communicator of `size` ranks: `member(i)` is the world rank of member i.
  template <typename Member>
  void add_group(int size, NcclUse use, const Member& member) {
    NcclPeers peers;
    for (int i = 0; i < size; ++i) {
      const int other = member(i);
      if (other == rank_) continue;
      ++(cluster_.node_of(other) == cluster_.node_of(rank_) ? peers.near : peers.far);
      if (use == NcclUse::rings && peers.far > 0) break;
    }
    bytes_ += nccl_buffer_bytes(peers, use);
  }

  // Adds the group of ranks that differ on one axis alone, from `first` on, `step` apart.
  void add_axis(int MeshPlace::*axis, int first, int size, int step, NcclUse use) {
    add_group(size, use, [&](int i) {
      MeshPlace place = place_;
      place.*axis = first + i * step;
      return mesh_.rank_of(place);
    });
  }

  void add_context_groups(int ulysses) {
    const int c = mesh_.cp;
    if (ulysses == 1 || ulysses == c) {
      add_axis(&MeshPlace::cp, 0, c, 1, ulysses == 1 ? NcclUse::rings : NcclUse::all_to_all);
      return;
    }
    // The group of all cp ranks only creates these two groups.
    add_axis(&MeshPlace::cp, place_.cp / ulysses * ulysses, ulysses, 1, NcclUse::all_to_all);
    add_axis(&MeshPlace::cp, place_.cp % ulysses, c / ulysses, ulysses, NcclUse::rings);
  }

  void add_replicas(WeightKind kind) {
    const int shards = mesh_.num_shards(kind);
    const int shard = mesh_.shard_of(place_, kind);
    const auto owner = [&](int replica, int of_shard) {
      if (kind == WeightKind::dense) {
        return mesh_.rank_of({.tp = place_.tp,
                              .cp = of_shard % mesh_.cp,
                              .dp_shard = of_shard / mesh_.cp,
                              .dp_replicate = replica,
                              .pp = place_.pp});
      }
      return expert_rank(replica, of_shard * mesh_.ep + mesh_.ep_of(place_));
    };
    add_group(shards, NcclUse::rings, [&](int i) { return owner(place_.dp_replicate, i); });
    add_group(mesh_.dp_replicate, NcclUse::rings, [&](int i) { return owner(i, shard); });
    add_group(mesh_.num_owners(kind), NcclUse::rings,
              [&](int i) { return owner(i / shards, i % shards); });
  }

  void add_experts() {
    const int group = mesh_.shard_of(place_, WeightKind::expert);
    add_group(mesh_.ep, NcclUse::all_to_all,
              [&](int i) { return expert_rank(place_.dp_replicate, group * mesh_.ep + i); });
    add_replicas(WeightKind::expert);
  }

  // The groups of all stages, of the first and last stage, and both directions of each neighbour.
  void add_pipeline() {
    const int last = mesh_.pp - 1;
    add_axis(&MeshPlace::pp, 0, mesh_.pp, 1, NcclUse::rings);
    if (place_.pp == 0 || place_.pp == last) {
      add_axis(&MeshPlace::pp, 0, 2, last, NcclUse::rings);
    }
    const bool has_ring = !mesh_.v_placement;
    if (has_ring || place_.pp < last) add_edges((place_.pp + 1) % mesh_.pp);
    if (has_ring || place_.pp > 0) add_edges((place_.pp + last) % mesh_.pp);
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  // Counts the ranks of a stage and replica in the order of MeshShape's expert groups.
  [[nodiscard]] int expert_rank(int replica, int index) const {
    const int shard = index / mesh_.tp;
    return mesh_.rank_of({.tp = index % mesh_.tp,
                          .cp = shard % mesh_.cp,
                          .dp_shard = shard / mesh_.cp,
                          .dp_replicate = replica,
                          .pp = place_.pp});
  }

  // Each direction to a neighbour has its own communicator. With V placement, chunks that go up the
  // ranks have their own, too.
  void add_edges(int neighbour) {
    for (int way = 0; way < (mesh_.v_placement ? 2 : 1); ++way) {
      for (const NcclUse use : {NcclUse::sends, NcclUse::receives}) {
        add_axis(&MeshPlace::pp, neighbour, 1, 1, use);
      }
    }
  }

  const Cluster& cluster_;
  const MeshShape& mesh_;
  int rank_;
  MeshPlace place_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::int64_t outside_bytes(const Cluster& cluster, const MeshShape& mesh, int ulysses, int rank) {
  Outside outside(cluster, mesh, rank);
  outside.add(cuda_context_of(cluster.device.software));
  if (mesh.tp > 1) {
    outside.add_axis(&MeshPlace::tp, 0, mesh.tp, 1, NcclUse::rings);
  }
  if (mesh.cp > 1) outside.add_context_groups(ulysses);
  outside.add_replicas(WeightKind::dense);
  if (mesh.experts_apart()) outside.add_experts();
  if (mesh.pp > 1) outside.add_pipeline();
  return outside.bytes();
}

}  // namespace shardsim
