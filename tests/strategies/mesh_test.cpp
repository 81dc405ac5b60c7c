#include "strategies/mesh.hpp"

#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

namespace shardsim::test {
namespace {

const std::vector<MeshShape> kShapes = {
    {.dp_shard = 2, .dp_replicate = 3, .tp = 2, .pp = 2},
    {.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 3, .order = RankOrder::dp_tp_pp},
    {.dp_shard = 1, .dp_replicate = 1, .tp = 4, .pp = 4},
    {.dp_shard = 5, .dp_replicate = 1, .tp = 1, .pp = 2},
    {.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 2, .cp = 2, .ep = 2},
    {.dp_shard = 4, .tp = 2, .pp = 2, .cp = 2, .ep = 8},
    {.dp_shard = 2, .tp = 2, .pp = 2, .cp = 3, .ep = 4, .order = RankOrder::dp_tp_pp},
};

void run_on_mesh(const MeshShape& shape, const std::function<void(int, Mesh&)>& body) {
  run_ranks(shape.size(), [&](Runtime&, Communicator& everyone) {
    Mesh mesh(everyone, shape);
    body(everyone.rank(), mesh);
  });
}

}  // namespace

TEST_CASE("P47: ranks and places of a mesh are one to one, in either order") {
  for (const MeshShape& shape : kShapes) {
    for (int rank = 0; rank < shape.size(); ++rank) {
      CHECK(shape.rank_of(shape.place_of(rank)) == rank);
    }
  }
}

TEST_CASE(
    "tensor-parallel ranks are neighbours by default, data-parallel ones in the other order") {
  MeshShape shape{.dp_shard = 3, .dp_replicate = 1, .tp = 2, .pp = 2};
  CHECK(shape.place_of(1) == MeshPlace{.tp = 1});
  CHECK(shape.place_of(2) == MeshPlace{.dp_shard = 1});
  CHECK(shape.place_of(6) == MeshPlace{.pp = 1});
  shape.order = RankOrder::dp_tp_pp;
  // The specification: rank = pp * (tp * dp) + tp * dp + dp.
  CHECK(shape.place_of(1) == MeshPlace{.dp_shard = 1});
  CHECK(shape.place_of(3) == MeshPlace{.tp = 1});
  CHECK(shape.place_of(6) == MeshPlace{.pp = 1});
}

TEST_CASE("P47: the groups of every axis partition the world") {
  for (const MeshShape& shape : kShapes) {
    int tp_members = 0;
    int shard_leaders = 0;
    run_on_mesh(shape, [&](int, Mesh& mesh) {
      if (mesh.tp_group() != nullptr) {
        CHECK(mesh.tp_group()->size() == shape.tp);
        CHECK(mesh.tp_group()->rank() == mesh.tp());
        ++tp_members;
      }
      const ReplicaGroups dense = mesh.replicas();
      if (dense.shard != nullptr && dense.shard->rank() == 0) ++shard_leaders;
      if (mesh.data_group() != nullptr) {
        CHECK(mesh.data_group()->size() == shape.data_size() * shape.cp);
        CHECK(mesh.data_group()->rank() == mesh.data_rank() * shape.cp + mesh.cp());
      }
      if (mesh.cp_group() != nullptr) CHECK(mesh.cp_group()->rank() == mesh.cp());
      CHECK(mesh.pp_group()->rank() == mesh.pp());
      CHECK((mesh.embedding_group() != nullptr) == (mesh.is_first_stage() || mesh.is_last_stage()));
    });
    CHECK(tp_members == (shape.tp > 1 ? shape.size() : 0));
    CHECK(shard_leaders == (shape.num_shards() > 1 ? shape.size() / shape.num_shards() : 0));
  }
}

TEST_CASE(
    "P47: an expert is shared by the ranks of a stage with the same place in their ep group") {
  for (const MeshShape& shape : kShapes) {
    if (!shape.experts_apart()) continue;
    // By stage and expert-parallel place: those who meet in the group of all owners.
    std::map<std::pair<int, int>, std::set<int>> owners;
    run_on_mesh(shape, [&](int rank, Mesh& mesh) {
      REQUIRE(mesh.ep_group() != nullptr);
      CHECK(mesh.ep_group()->size() == shape.ep);
      CHECK(mesh.ep_group()->rank() == mesh.ep());
      const ReplicaGroups experts = mesh.replicas(WeightKind::expert);
      owners[{mesh.pp(), mesh.ep()}].insert(rank);
      const int num_owners = shape.num_owners(WeightKind::expert);
      CHECK(num_owners * shape.ep == shape.num_owners() * shape.tp);
      CHECK((experts.all == nullptr ? 1 : experts.all->size()) == num_owners);
      CHECK((experts.shard == nullptr ? 1 : experts.shard->size()) == experts.num_shards);
      if (experts.shard != nullptr) CHECK(experts.shard->rank() == experts.shard_rank);
      if (experts.all != nullptr) {
        const Tensor mine =
            Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, false);
        mine.set(0, mesh.ep());
        experts.all->all_reduce(mine, ReduceOp::max).wait();
        CHECK(mine.get(0) == mesh.ep());
      }
    });
    CHECK(owners.size() == static_cast<std::size_t>(shape.pp * shape.ep));
    for (const auto& [place, ranks] : owners) {
      CHECK(ranks.size() == static_cast<std::size_t>(shape.num_owners(WeightKind::expert)));
    }
  }
}

TEST_CASE("an ep that does not divide the ranks of a stage and replica is refused") {
  const MeshShape shape{.dp_shard = 3, .tp = 2, .ep = 4};
  run_ranks(shape.size(), [&](Runtime&, Communicator& everyone) {
    CHECK_THROWS_WITH(Mesh(everyone, shape), Catch::Contains("ep 4 does not divide"));
  });
}

TEST_CASE("what a stage sends arrives at the next one around the ring, in both directions") {
  for (const MeshShape& shape : kShapes) {
    run_on_mesh(shape, [&](int rank, Mesh& mesh) {
      const auto exchange = [&](Mesh::Edge out, Mesh::Edge in, int distance) {
        const Tensor mine =
            Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, false);
        const Tensor other =
            Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, false);
        mine.set(0, rank);
        Work receive = mesh.edge(in)->recv(other, 0);
        Work send = mesh.edge(out)->send(mine, 1);
        receive.wait();
        send.wait();
        MeshPlace from = mesh.place();
        from.pp = (from.pp - distance + shape.pp) % shape.pp;
        CHECK(other.get(0) == shape.rank_of(from));
      };
      exchange(Mesh::Edge::forward_out, Mesh::Edge::forward_in, 1);
      exchange(Mesh::Edge::backward_out, Mesh::Edge::backward_in, -1);
    });
  }
}

TEST_CASE("with V placement boundaries have edges for both ways, and none goes around") {
  for (MeshShape shape : kShapes) {
    shape.v_placement = true;
    run_on_mesh(shape, [&](int rank, Mesh& mesh) {
      // Every rank that has a neighbour there sends its number over the edge.
      const auto exchange = [&](Mesh::Edge out, Mesh::Edge in, int distance) {
        MeshPlace from = mesh.place();
        from.pp -= distance;
        const int to = mesh.pp() + distance;
        const bool sends = to >= 0 && to < shape.pp;
        const bool receives = from.pp >= 0 && from.pp < shape.pp;
        REQUIRE((mesh.edge(out) != nullptr) == sends);
        REQUIRE((mesh.edge(in) != nullptr) == receives);
        const Tensor mine =
            Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, false);
        const Tensor other =
            Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, false);
        mine.set(0, rank);
        Work receive;
        Work send;
        if (receives) receive = mesh.edge(in)->recv(other, 0);
        if (sends) send = mesh.edge(out)->send(mine, 1);
        receive.wait();
        send.wait();
        if (receives) CHECK(other.get(0) == shape.rank_of(from));
      };
      exchange(Mesh::Edge::forward_out, Mesh::Edge::forward_in, 1);
      exchange(Mesh::Edge::backward_out, Mesh::Edge::backward_in, -1);
      exchange(Mesh::Edge::up_forward_out, Mesh::Edge::up_forward_in, -1);
      exchange(Mesh::Edge::up_backward_out, Mesh::Edge::up_backward_in, 1);
    });
  }
}

}  // namespace shardsim::test
