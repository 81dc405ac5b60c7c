#include "strategies/mesh.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/mesh_groups.hpp"

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
    {.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 2, .cp = 2, .ep = 2, .etp = 2},
    {.dp_shard = 4, .dp_replicate = 2, .tp = 2, .pp = 2, .ep = 8, .dispatch_nodes = 2},
    {.dp_shard = 4, .pp = 2, .ep = 4, .dispatch_nodes = 4},
    {.dp_shard = 4, .tp = 2, .pp = 2, .ep = 4, .dispatch_nodes = 1},
    {.dp_shard = 3, .tp = 4, .pp = 2, .ep = 3, .etp = 2, .order = RankOrder::dp_tp_pp},
    {.dp_shard = 2, .tp = 2, .pp = 2, .etp = 4},
    {.dp_shard = 2, .tp = 8, .pp = 2, .tp_copies = {2, 4}, .joins_tp_parts = true},
    {.dp_shard = 2, .tp = 6, .pp = 2, .order = RankOrder::dp_tp_pp, .tp_copies = {3}},
};

void run_on_mesh(const MeshShape& shape, const std::function<void(int, Mesh&)>& body) {
  run_ranks(shape.size(), [&](Runtime&, Communicator& everyone) {
    Mesh mesh(everyone, shape);
    body(everyone.rank(), mesh);
  });
}

// Compares the members of a rank's groups with what is told of them. All are asked before any is
// waited for: edges form rings.
class Members {
 public:
  explicit Members(int rank) : rank_(rank), mine_(numbers(1)) { mine_.set(0, rank); }

  void compare(Communicator* group, const RankSpan& told) {
    if (group == nullptr) {
      CHECK(told.size == 1);
      CHECK(told.rank(0) == rank_);
      return;
    }
    REQUIRE(group->size() == told.size);
    const Tensor all = numbers(told.size);
    asked_.push_back({told, all, group->all_gather(all, mine_)});
  }
  // A span does not tell whether its group is made.
  void compare_if_made(Communicator* group, const RankSpan& told) {
    if (group != nullptr) compare(group, told);
  }
  void settle() {
    for (Asked& asked : asked_) {
      asked.work.wait();
      for (int i = 0; i < asked.told.size; ++i) CHECK(asked.all.get(i) == asked.told.rank(i));
    }
  }

 private:
  struct Asked {
    RankSpan told;
    Tensor all;
    Work work;
  };
  static Tensor numbers(int count) {
    return Tensor::allocate(nullptr, MemoryCategory::comm, {count}, DType::int64, false);
  }

  int rank_;
  Tensor mine_;
  std::vector<Asked> asked_;
};

void compare_edges(Members& members, const MeshShape& shape, Mesh& mesh) {
  const int here = mesh.pp();
  const int next = (here + 1) % shape.pp;
  const int previous = (here + shape.pp - 1) % shape.pp;
  const auto compare = [&](Mesh::Edge edge, int sender, int receiver) {
    members.compare_if_made(mesh.edge(edge), edge_group(shape, mesh.place(), sender, receiver));
  };
  compare(Mesh::Edge::forward_out, here, next);
  compare(Mesh::Edge::forward_in, previous, here);
  compare(Mesh::Edge::backward_out, here, previous);
  compare(Mesh::Edge::backward_in, next, here);
  compare(Mesh::Edge::up_forward_out, here, previous);
  compare(Mesh::Edge::up_forward_in, next, here);
  compare(Mesh::Edge::up_backward_out, here, next);
  compare(Mesh::Edge::up_backward_in, previous, here);
}

}  // namespace

TEST_CASE("P47: the members of each group of a mesh are those that its span tells") {
  for (MeshShape shape : kShapes) {
    for (const bool v_placement : {false, true}) {
      shape.v_placement = v_placement;
      run_on_mesh(shape, [&](int rank, Mesh& mesh) {
        const MeshPlace& place = mesh.place();
        Members members(rank);
        members.compare(mesh.tp_group(), tensor_group(shape, place));
        for (const int copies : shape.tp_copies) {
          members.compare(mesh.tp_copies_group(copies), tensor_copies_group(shape, place, copies));
          members.compare_if_made(mesh.tp_parts_group(copies),
                                  tensor_parts_group(shape, place, copies));
          CHECK((mesh.tp_parts_group(copies) != nullptr) == shape.joins_tp_parts);
        }
        members.compare(mesh.cp_group(), context_group(shape, place));
        members.compare(mesh.ep_group(), expert_group(shape, place));
        if (shape.dispatch_nodes > 0) {
          members.compare(mesh.ep_across_group(), expert_across_group(shape, place));
          members.compare(mesh.ep_inside_group(), expert_inside_group(shape, place));
        }
        members.compare(mesh.etp_group(), expert_tensor_group(shape, place));
        members.compare(mesh.expert_parts_group(), all_experts_group(shape, place));
        members.compare(mesh.pp_group(), pipeline_group(shape, place));
        for (const WeightKind kind : {WeightKind::dense, WeightKind::expert}) {
          const ReplicaGroups replicas = mesh.replicas(kind);
          members.compare(replicas.shard, shard_group(shape, place, kind));
          members.compare(replicas.replicate, replicate_group(shape, place));
          members.compare(replicas.all, owner_group(shape, place, kind));
        }
        members.compare_if_made(mesh.embedding_group(), embedding_group(shape, place));
        compare_edges(members, shape, mesh);
        members.settle();
      });
    }
  }
}

TEST_CASE("a context group has two levels: neighbours, and ranks that are as many places apart") {
  const MeshShape shape{.dp_shard = 2, .tp = 2, .cp = 6};
  const MeshPlace place{.tp = 1, .cp = 3, .dp_shard = 1};
  const auto cp_of = [&](const RankSpan& group) {
    std::vector<int> of;
    for (int i = 0; i < group.size; ++i) {
      MeshPlace member = shape.place_of(group.rank(i));
      of.push_back(std::exchange(member.cp, place.cp));
      CHECK(member == place);
    }
    return of;
  };
  CHECK(cp_of(ulysses_group(shape, place, 2)) == std::vector<int>{2, 3});
  CHECK(cp_of(ulysses_group(shape, place, 3)) == std::vector<int>{3, 4, 5});
  CHECK(cp_of(ring_group(shape, place, 2)) == std::vector<int>{1, 3, 5});
  CHECK(cp_of(ring_group(shape, place, 3)) == std::vector<int>{0, 3});
}

TEST_CASE("neighbours have copies of a part, and ranks as many places apart have each part once") {
  const MeshShape shape{.dp_shard = 2, .tp = 6};
  const MeshPlace place{.tp = 4, .dp_shard = 1};
  const auto tp_of = [&](const RankSpan& group) {
    std::vector<int> of;
    for (int i = 0; i < group.size; ++i) of.push_back(shape.place_of(group.rank(i)).tp);
    return of;
  };
  CHECK(tp_of(tensor_copies_group(shape, place, 2)) == std::vector<int>{4, 5});
  CHECK(tp_of(tensor_copies_group(shape, place, 3)) == std::vector<int>{3, 4, 5});
  CHECK(tp_of(tensor_parts_group(shape, place, 2)) == std::vector<int>{0, 2, 4});
  CHECK(tp_of(tensor_parts_group(shape, place, 3)) == std::vector<int>{1, 4});
}

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
    "P47: a part of experts is shared by the ranks of a stage with the same place in their "
    "groups") {
  for (const MeshShape& shape : kShapes) {
    if (!shape.experts_apart()) continue;
    // By stage and part: those who meet in the group of all owners.
    std::map<std::pair<int, int>, std::set<int>> owners;
    run_on_mesh(shape, [&](int rank, Mesh& mesh) {
      CHECK((mesh.ep_group() != nullptr) == (shape.ep > 1));
      if (shape.ep > 1) CHECK(mesh.ep_group()->rank() == mesh.ep());
      CHECK((mesh.etp_group() != nullptr) == (shape.etp > 1));
      if (shape.etp > 1) CHECK(mesh.etp_group()->rank() == shape.etp_of(mesh.place()));
      REQUIRE(mesh.expert_parts_group() != nullptr);
      CHECK(mesh.expert_parts_group()->size() == shape.ep * shape.etp);
      CHECK(mesh.expert_parts_group()->rank() == mesh.expert_part());
      const ReplicaGroups experts = mesh.replicas(WeightKind::expert);
      owners[{mesh.pp(), mesh.expert_part()}].insert(rank);
      const int num_owners = shape.num_owners(WeightKind::expert);
      CHECK(num_owners * shape.ep * shape.etp == shape.num_owners() * shape.tp);
      CHECK((experts.all == nullptr ? 1 : experts.all->size()) == num_owners);
      CHECK((experts.shard == nullptr ? 1 : experts.shard->size()) == experts.num_shards);
      if (experts.shard != nullptr) CHECK(experts.shard->rank() == experts.shard_rank);
      if (experts.all != nullptr) {
        const Tensor mine =
            Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, false);
        mine.set(0, mesh.expert_part());
        experts.all->all_reduce(mine, ReduceOp::max).wait();
        CHECK(mine.get(0) == mesh.expert_part());
      }
    });
    CHECK(owners.size() == static_cast<std::size_t>(shape.pp * shape.ep * shape.etp));
    for (const auto& [place, ranks] : owners) {
      CHECK(ranks.size() == static_cast<std::size_t>(shape.num_owners(WeightKind::expert)));
    }
  }
}

// Megatron-LM's RankGenerator for experts, order tp-ep-dp-pp with etp as its tp: a rank's number is
// etp + etp_size (ep + ep_size (edp + edp_size pp)).
TEST_CASE("K7: experts regroup 64 ranks as Megatron-LM's order of its expert mesh says") {
  int num_shapes = 0;
  const auto divisors = [](int number) {
    std::vector<int> found;
    for (int d = 1; d <= number; ++d) {
      if (number % d == 0) found.push_back(d);
    }
    return found;
  };
  const auto check = [&](const MeshShape& shape) {
    const int stage = 64 / shape.pp;
    const int parts = shape.ep * shape.etp;
    for (int rank = 0; rank < 64; ++rank) {
      const MeshPlace place = shape.place_of(rank);
      const int etp = rank % shape.etp;
      const int ep = rank / shape.etp % shape.ep;
      const int edp = rank % stage / parts;
      const int pp = rank / stage;
      const auto number = [&](int of_etp, int of_ep, int of_edp) {
        return of_etp + shape.etp * (of_ep + shape.ep * of_edp) + stage * pp;
      };
      const RankSpan slices = expert_tensor_group(shape, place);
      const RankSpan experts = expert_group(shape, place);
      const RankSpan copies = owner_group(shape, place, WeightKind::expert);
      bool is_theirs = slices.size == shape.etp && experts.size == shape.ep &&
                       (parts == 1 || copies.size == stage / parts);
      for (int i = 0; i < slices.size; ++i) is_theirs &= slices.rank(i) == number(i, ep, edp);
      for (int i = 0; i < experts.size; ++i) is_theirs &= experts.rank(i) == number(etp, i, edp);
      for (int i = 0; i < copies.size && parts > 1; ++i) {
        is_theirs &= copies.rank(i) == number(etp, ep, i);
      }
      INFO(rank << ", etp " << shape.etp << ", ep " << shape.ep << ", tp " << shape.tp << ", cp "
                << shape.cp << ", pp " << shape.pp);
      REQUIRE(is_theirs);
    }
    ++num_shapes;
  };
  for (const int pp : divisors(64)) {
    for (const int tp : divisors(64 / pp)) {
      for (const int cp : divisors(64 / pp / tp)) {
        MeshShape shape{.dp_shard = 64 / pp / tp / cp, .tp = tp, .pp = pp, .cp = cp};
        for (const int etp : divisors(64 / pp)) {
          for (const int ep : divisors(64 / pp / etp)) {
            shape.ep = ep;
            shape.etp = etp;
            check(shape);
          }
        }
      }
    }
  }
  CHECK(num_shapes == 1596);
}

TEST_CASE("an ep that does not divide the ranks of a stage and replica is refused") {
  const MeshShape shape{.dp_shard = 3, .tp = 2, .ep = 4};
  run_ranks(shape.size(), [&](Runtime&, Communicator& everyone) {
    CHECK_THROWS_WITH(Mesh(everyone, shape), Catch::Contains("ep 4 does not divide"));
    const MeshShape sliced{.dp_shard = 3, .tp = 2, .ep = 2, .etp = 2};
    CHECK_THROWS_WITH(Mesh(everyone, sliced), Catch::Contains("ep 2 x etp 2 does not divide"));
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
