#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "sim/hardware/collective.hpp"
#include "sim/hardware/network_model.hpp"

namespace shardsim {
namespace {

Cluster cluster_of(int nodes, int gpus_per_node) {
  Cluster cluster;
  cluster.num_nodes = nodes;
  cluster.gpus_per_node = gpus_per_node;
  cluster.intra_node = {.bytes_per_s = 100e9, .latency_s = 1e-6};
  cluster.inter_node = {.bytes_per_s = 10e9, .latency_s = 5e-6};
  return cluster;
}

std::vector<int> ranks_of(const Cluster& cluster, int stride = 1) {
  std::vector<int> ranks;
  for (int rank = 0; rank < cluster.num_ranks(); rank += stride) ranks.push_back(rank);
  return ranks;
}

int depth_of(const DoubleTree& tree, int number, int member) {
  int depth = 0;
  while (tree.parent(number, member) >= 0) {
    member = tree.parent(number, member);
    ++depth;
  }
  return depth;
}

}  // namespace

TEST_CASE("a group knows its nodes, its rails and which hops leave a node") {
  //  node 0: 0 1 2 3    node 1: 4 5 6 7       group 0 1 2 4
  const GroupLayout layout(cluster_of(2, 4), {0, 1, 2, 4});
  CHECK(layout.num_nodes == 2);
  CHECK(layout.rails == 1);
  CHECK(layout.max_per_node == 3);
  CHECK(layout.next_is_far == std::vector<bool>{false, false, true, true});
}

TEST_CASE("chunks are even but for one element, the first ones longer") {
  rc::prop("they add up", [] {
    const int parts = *rc::gen::inRange(1, 40);
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(0, 1000);
    std::int64_t sum = 0;
    for (int part = 0; part < parts; ++part) {
      const std::int64_t size = chunk_size(count, parts, part);
      RC_ASSERT(size == count / parts || size == count / parts + 1);
      RC_ASSERT(part == 0 || size <= chunk_size(count, parts, part - 1));
      sum += size;
    }
    RC_ASSERT(sum == count);
  });
}

TEST_CASE("both trees of a double tree span all members, with few levels") {
  rc::prop("for any number of nodes and members", [] {
    const int nodes = *rc::gen::inRange(1, 40);
    const int per_node = *rc::gen::inRange(1, 9);
    const Cluster cluster = cluster_of(nodes, per_node);
    const GroupLayout layout(cluster, ranks_of(cluster));
    const DoubleTree tree(layout);
    for (int number = 0; number < 2; ++number) {
      int roots = 0;
      for (int member = 0; member < layout.size(); ++member) {
        roots += tree.parent(number, member) < 0 ? 1 : 0;
        // Every member reaches a root within the depths the price is made of.
        RC_ASSERT(depth_of(tree, number, member) <= tree.near_depth() + tree.far_depth());
      }
      RC_ASSERT(roots == 1);
    }
  });
}

TEST_CASE("with one member per node, no member of an even double tree has children in both trees") {
  for (const int nodes : {2, 4, 8, 16, 32, 64}) {
    const Cluster cluster = cluster_of(nodes, 1);
    const DoubleTree tree{GroupLayout(cluster, ranks_of(cluster))};
    std::vector<std::vector<int>> children(2, std::vector<int>(static_cast<std::size_t>(nodes), 0));
    for (int number = 0; number < 2; ++number) {
      for (int member = 0; member < nodes; ++member) {
        const int parent = tree.parent(number, member);
        if (parent >= 0)
          ++children[static_cast<std::size_t>(number)][static_cast<std::size_t>(parent)];
      }
    }
    int interior_in_both = 0;
    for (std::size_t member = 0; member < static_cast<std::size_t>(nodes); ++member) {
      interior_in_both += children[0][member] > 0 && children[1][member] > 0 ? 1 : 0;
    }
    // The root of each tree is a leaf or has one child in the other.
    CHECK(interior_in_both <= 2);
  }
}

TEST_CASE("a tree all_reduce moves 2 (N-1) n in all, and what is sent is received") {
  rc::prop("for any group and count", [] {
    const Cluster cluster = cluster_of(*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 9));
    const GroupLayout layout(cluster, ranks_of(cluster, *rc::gen::inRange(1, 4)));
    const DoubleTree tree(layout);
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(0, 1000);
    Traffic sum;
    for (int member = 0; member < layout.size(); ++member) {
      const Traffic traffic = tree.all_reduce_traffic(member, count, 2);
      sum.sent += traffic.sent;
      sum.received += traffic.received;
    }
    RC_ASSERT(sum.sent == 2 * (layout.size() - 1) * count * 2);
    RC_ASSERT(sum.received == sum.sent);
  });
}

TEST_CASE("a chain passes the buffer on from the root, or towards it") {
  // 4 members, root 2: broadcast 2 -> 3 -> 0 -> 1; reduce 3 -> 0 -> 1 -> 2.
  const auto sent = [](CollectiveKind kind, int member) {
    return chain_traffic(row_of(kind), 4, member, 2, 100).sent;
  };
  CHECK(sent(CollectiveKind::broadcast, 2) == 100);
  CHECK(sent(CollectiveKind::broadcast, 1) == 0);
  CHECK(sent(CollectiveKind::reduce, 2) == 0);
  CHECK(sent(CollectiveKind::reduce, 3) == 100);
  CHECK(chain_traffic(collective::kReduce, 4, 3, 2, 100).received == 0);
  CHECK(chain_traffic(collective::kBroadcast, 4, 2, 2, 100).received == 0);
}

TEST_CASE("a group of one moves nothing and takes no time") {
  const Cluster cluster = cluster_of(1, 1);
  const GroupLayout layout(cluster, {0});
  CHECK(ring_traffic(collective::kAllReduce, 1, 40, 40, 40, 40).sent == 0);
  CHECK(ring_traffic(collective::kAllGather, 1, 10, 10, 10, 10).sent == 0);
  CHECK(star_traffic(collective::kGather, 1, 0, 0, 0, 10).sent == 0);
  const auto network = make_alpha_beta_model(cluster);
  CollectiveRequest request;
  request.layout = &layout;
  request.bytes = 1000;
  request.largest_chunk = 1000;
  CHECK(network->collective(request, Time()).duration == Time());
}

}  // namespace shardsim
