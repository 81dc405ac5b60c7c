#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/hardware/outside_memory.hpp"
#include "sim/hardware/software.hpp"

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/device_memory.hpp"

#include "tests/app/folding_fixture.hpp"
#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

namespace shardsim::test {
namespace {

// The world ranks of a group's members.
std::vector<int> members_of(Runtime& runtime, Communicator& group, int rank) {
  Tensor own = runtime.allocate(MemoryCategory::comm, {1}, DType::fp64);
  own.set(0, rank);
  Tensor all = runtime.allocate(MemoryCategory::comm, {group.size()}, DType::fp64);
  group.all_gather(all, own).wait();
  std::vector<int> members;
  for (int i = 0; i < group.size(); ++i) members.push_back(static_cast<int>(all.get(i)));
  return members;
}

// The bytes of the rank's own communicators, as they report them.
class Counted {
 public:
  Counted(Runtime& runtime, const Cluster& cluster, int rank)
      : runtime_(runtime), cluster_(cluster), rank_(rank) {}

  void add(Communicator* group, NcclUse use) {
    if (group == nullptr) return;
    NcclPeers peers;
    for (const int member : members_of(runtime_, *group, rank_)) {
      if (member != rank_) ++(is_near(member) ? peers.near : peers.far);
    }
    bytes_ += nccl_buffer_bytes(peers, use);
  }
  void add_peer(int other, NcclUse use) {
    NcclPeers peers;
    ++(is_near(other) ? peers.near : peers.far);
    bytes_ += nccl_buffer_bytes(peers, use);
  }
  void add(const ReplicaGroups& groups) {
    add(groups.shard, NcclUse::rings);
    add(groups.replicate, NcclUse::rings);
    add(groups.all, NcclUse::rings);
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  [[nodiscard]] bool is_near(int other) const {
    return cluster_.node_of(other) == cluster_.node_of(rank_);
  }

  Runtime& runtime_;
  const Cluster& cluster_;
  int rank_;
  std::int64_t bytes_ = 0;
};

void check_shape(const MeshShape& shape, int gpus_per_node) {
  FiberOptions options;
  options.cluster = test_cluster(shape.size(), gpus_per_node);
  const Cluster cluster = options.cluster;
  FiberWorld world(std::move(options));
  const int ulysses = shape.cp;
  world.run([&](Runtime& runtime, Communicator& everyone) {
    Mesh mesh(everyone, shape);
    Counted counted(runtime, cluster, everyone.rank());
    counted.add(mesh.tp_group(), NcclUse::rings);
    counted.add(mesh.cp_group(), NcclUse::all_to_all);
    const bool by_node = shape.dispatch_nodes > 0;
    counted.add(mesh.ep_group(), by_node ? NcclUse::rings : NcclUse::all_to_all);
    counted.add(mesh.ep_across_group(), NcclUse::all_to_all);
    counted.add(mesh.ep_inside_group(), NcclUse::all_to_all);
    counted.add(mesh.etp_group(), NcclUse::rings);
    if (shape.ep > 1 && shape.etp > 1) counted.add(mesh.expert_parts_group(), NcclUse::rings);
    counted.add(mesh.replicas());
    if (shape.experts_apart()) counted.add(mesh.replicas(WeightKind::expert));
    counted.add(mesh.pp_group(), NcclUse::rings);
    counted.add(mesh.embedding_group(), NcclUse::rings);
    // An edge has its sender first, and lies between neighbours.
    for (int i = 0; i < Mesh::kNumEdges; ++i) {
      const auto which = static_cast<Mesh::Edge>(i);
      const Communicator* const edge = mesh.edge(which);
      if (edge == nullptr) continue;
      const bool to_next = which == Mesh::Edge::forward_out || which == Mesh::Edge::backward_in ||
                           which == Mesh::Edge::up_forward_in ||
                           which == Mesh::Edge::up_backward_out;
      MeshPlace other = mesh.place();
      other.pp = (other.pp + (to_next ? 1 : shape.pp - 1)) % shape.pp;
      counted.add_peer(shape.rank_of(other),
                       edge->rank() == 0 ? NcclUse::sends : NcclUse::receives);
    }
    const std::int64_t context = kCudaContextBytes.bytes;
    INFO("rank " << everyone.rank() << " of tp " << shape.tp << " pp " << shape.pp << " cp "
                 << shape.cp << " ep " << shape.ep << " etp " << shape.etp);
    CHECK(outside_bytes(cluster, shape, ulysses, everyone.rank()) == context + counted.bytes());
  });
}

}  // namespace

TEST_CASE("what is outside the allocator is what the communicators of a rank come to") {
  for (const int gpus_per_node : {2, 3, 6, 12}) {
    check_shape({.dp_shard = 2, .dp_replicate = 3, .tp = 2}, gpus_per_node);
    check_shape({.dp_shard = 2, .tp = 2, .pp = 3}, gpus_per_node);
    check_shape({.dp_shard = 2, .tp = 2, .pp = 3, .order = RankOrder::dp_tp_pp}, gpus_per_node);
    check_shape({.dp_shard = 3, .tp = 1, .pp = 4}, gpus_per_node);
    check_shape({.dp_shard = 3, .tp = 1, .pp = 4, .v_placement = true}, gpus_per_node);
    check_shape({.dp_shard = 2, .dp_replicate = 1, .tp = 1, .pp = 2, .cp = 3}, gpus_per_node);
    check_shape({.dp_shard = 3, .dp_replicate = 2, .tp = 2, .ep = 3}, gpus_per_node);
    check_shape({.dp_shard = 2, .tp = 2, .cp = 3, .ep = 4, .order = RankOrder::dp_tp_pp},
                gpus_per_node);
    check_shape({.dp_shard = 2, .tp = 2, .cp = 3, .ep = 3, .etp = 2}, gpus_per_node);
    check_shape({.dp_shard = 3, .tp = 2, .pp = 2, .etp = 2}, gpus_per_node);
    check_shape({.dp_shard = 6, .tp = 2, .ep = 12, .dispatch_nodes = 12 / gpus_per_node},
                gpus_per_node);
  }
}

TEST_CASE("two-level attention keeps a group that exchanges heads and a ring") {
  const Cluster cluster = test_cluster(16, 8);
  MeshShape mesh;
  mesh.cp = 8;
  mesh.dp_replicate = 2;
  const auto outside = [&](int ulysses) { return outside_bytes(cluster, mesh, ulysses, 0); };
  constexpr std::int64_t kPair = std::int64_t{32} * 12 * kMiB;
  constexpr std::int64_t kRing = std::int64_t{24} * 12 * kMiB;
  CHECK(outside(2) - outside(1) == kPair);
  CHECK(outside(4) - outside(1) == 3 * kPair);
  CHECK(outside(8) - outside(1) == 7 * kPair - kRing);
}

TEST_CASE("a rank of each kind is replayed: by stage, placement, shard and fault") {
  const auto kinds = [](const std::vector<std::string>& overrides) {
    return rank_kinds(compile(load_scenario_text(small_plan("llama"), "test.json", overrides)),
                      static_cast<const Fold*>(nullptr));
  };
  const std::vector<std::string> pipeline = {"system.nodes=2", "system.gpus_per_node=6",
                                             "parallelism.pp=3", "training.global_batch_size=12"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), pipeline.begin(), pipeline.end());
    return kinds(more);
  };
  // Stages of four ranks on nodes of six. Ranks 0 to 3 may have the second stage on their node or
  // not; ranks 8 to 11 may have that of the last boundary.
  CHECK(with({}) == std::vector<int>{0, 2, 4, 8, 10});
  CHECK(with({R"(faults.stragglers=[{"rank": 5, "slowdown": 1.5}])"}) ==
        std::vector<int>{0, 2, 4, 5, 8, 10});
  CHECK(kinds({"parallelism.zero_stage=0"}) == std::vector<int>{0});
  // A vocabulary of 53 fills up one tensor-parallel rank, and with experts all ranks differ.
  CHECK(kinds({"parallelism.tp=8"}) == std::vector<int>{0, 7});
  CHECK(kinds({"model.num_experts=4", "model.num_experts_per_token=1",
               "model.moe_ffn_hidden_size=40"})
            .size() == 16);
}

}  // namespace shardsim::test
