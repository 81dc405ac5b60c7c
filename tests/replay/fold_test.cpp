#include "backends/fold.hpp"

#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/backends/fiber_fixture.hpp"

// A fold's splits: groups that run, and their twins, without a list of all members.
namespace shardsim::test {
namespace {

using Ranks = std::vector<int>;

std::vector<Ranks> twin_lists(const Twins& twins, int size) {
  std::vector<Ranks> listed(twins.size());
  for (std::size_t twin = 0; twin < twins.size(); ++twin) {
    for (int member = 0; member < size; ++member) listed[twin].push_back(twins.rank(twin, member));
  }
  return listed;
}

// Every `stride` ranks do the same.
Fold repeating(int ranks, int stride) {
  return fold_ranks(ranks, [stride](int rank) { return rank % stride; });
}

RankSpan line_from(int base, int stride, int size) {
  return {.base = base, .axes = {{{.size = size, .stride = stride}}}, .size = size};
}

}  // namespace

TEST_CASE("fold: a rank has the place of its representative among those that run") {
  const Fold fold = fold_ranks(6, [](int rank) { return rank < 2 ? 0 : 2 + rank % 2; });
  CHECK(fold.running == Ranks{0, 2, 3});
  CHECK(fold.place_of == Ranks{0, 0, 1, 2, 1, 2});
  CHECK(fold.representative_of(5) == 3);
  CHECK(fold.runs(3));
  CHECK_FALSE(fold.runs(4));
}

TEST_CASE("fold: twins are found around the ranks that do not run") {
  const Fold fold = repeating(8, 2);
  const FoldedSplit pairs = fold_split(fold, {line_from(0, 1, 2), line_from(0, 1, 2)});
  REQUIRE(pairs.groups.size() == 1);
  CHECK(pairs.groups[0].members == Ranks{0, 1});
  CHECK(twin_lists(pairs.groups[0].twins, 2) == std::vector<Ranks>{{2, 3}, {4, 5}, {6, 7}});
  // A group of ranks that one of them represents has no twins.
  const FoldedSplit columns = fold_split(fold, {line_from(0, 2, 4), line_from(1, 2, 4)});
  REQUIRE(columns.groups.size() == 2);
  CHECK(columns.groups[1].color == 1);
  CHECK(columns.groups[1].members == Ranks{1, 3, 5, 7});
  CHECK(columns.groups[0].twins.size() + columns.groups[1].twins.size() == 0);
  // Not all ranks need to be in a group.
  const FoldedSplit some = fold_split(fold, {RankSpan::none(), line_from(1, 1, 1)});
  REQUIRE(some.groups.size() == 1);
  CHECK(twin_lists(some.groups[0].twins, 1) == std::vector<Ranks>{{3}, {5}, {7}});
}

TEST_CASE("fold: twins need not lie as far from each member, and parts of groups have their own") {
  Twins twins({0, 1, 2});
  twins.add({4, 5, 6});
  twins.add({9, 8, 7});
  CHECK(twin_lists(twins, 3) == std::vector<Ranks>{{4, 5, 6}, {9, 8, 7}});
  CHECK(twins.is_along(0));
  CHECK_FALSE(twins.is_along(1));
  CHECK(twin_lists(twins.part({2, 0}), 2) == std::vector<Ranks>{{6, 4}, {7, 9}});
  CHECK(Twins().part({0, 1}).size() == 0);
}

TEST_CASE("fold: groups whose members do not correspond are refused") {
  // Rank 1 is like rank 0, but a group of 1 and 2 has no rank like it that runs.
  const Fold fold = fold_ranks(4, [](int rank) { return rank < 2 ? 0 : 2; });
  CHECK_THROWS_AS(fold_split(fold, {line_from(0, 3, 2), line_from(1, 1, 2)}), Error);
  // Rank 2 names a group that rank 0 is in, but not as that does.
  CHECK_THROWS_AS(
      fold_split(repeating(4, 3), {line_from(0, 2, 2), line_from(1, 2, 2), line_from(2, 1, 1)}),
      Error);
  // A twin has the members of its group in another order.
  const Fold crossed = fold_ranks(4, [](int rank) { return rank < 2 ? rank : 3 - rank; });
  CHECK_THROWS_AS(fold_split(crossed, {line_from(0, 1, 2), line_from(0, 1, 2)}), Error);
}

TEST_CASE("fold: twins lie alike on whole nodes and pods, and otherwise if their placement does") {
  const auto lies_alike = [](const Cluster& cluster, int stride, int size, int period) {
    std::vector<RankSpan> groups;
    for (int rank = 0; rank < period; ++rank) {
      groups.push_back(line_from(rank % stride, stride, size).around(rank));
    }
    return twins_lie_alike(fold_split(repeating(cluster.num_ranks(), period), groups), cluster);
  };
  CHECK(lies_alike(test_cluster(16, 4), 1, 4, 4));
  CHECK(lies_alike(test_cluster(16, 4), 1, 2, 2));
  // The first of (0 1 2), (3 4 5) ... lies on one node, the second does not.
  CHECK_FALSE(lies_alike(test_cluster(12, 4), 1, 3, 3));
  Cluster cluster = test_cluster(16, 2);
  cluster.nodes_per_pod = 3;
  CHECK(lies_alike(cluster, 1, 2, 2));
  CHECK_FALSE(lies_alike(cluster, 1, 4, 4));  // The second one spans pods.
  cluster = test_cluster(16, 4);
  cluster.nics_per_node = 1;
  CHECK(lies_alike(cluster, 1, 2, 2));
}

}  // namespace shardsim::test
