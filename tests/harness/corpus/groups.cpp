#include <memory>
#include <utility>
#include <vector>

#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Bugs that need more than one group: the wrong one, groups made or used in different orders, and
// groups that are gone too early or never.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kGroupCount = 16;

// The first ranks of a data-parallel group use it, all others the world.
int num_in_wrong_group(int size) { return (size - 1) / 2; }

Culprits ranks_in_wrong_group() {
  return [](int size) {
    std::vector<int> ranks(static_cast<std::size_t>(num_in_wrong_group(size)));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  };
}

// `members`: of the group of rank 0.
void use_wrong_group(RankContext& context, const Plant& plant, int members) {
  const int color = context.rank() < members ? 0 : 1;
  const auto group = context.world().split(color, context.rank(), "dp");
  const Tensor buffer = context.tensor(kGroupCount);
  if (plant.in(context) && context.rank() < num_in_wrong_group(context.size())) {
    plant.next_line();
    group->all_reduce(buffer, ReduceOp::sum, {.label = "loss"}).wait();
    return;
  }
  context.world().all_reduce(buffer, ReduceOp::sum, {.label = "loss"}).wait();
}

// One member of it is right, and so it never comes about.
void wrong_group(RankContext& context, const Plant& plant) {
  use_wrong_group(context, plant, num_in_wrong_group(context.size()) + 1);
}

// All members of it are wrong: their call succeeds.
void wrong_group_complete(RankContext& context, const Plant& plant) {
  use_wrong_group(context, plant, num_in_wrong_group(context.size()));
}

void creation_order(RankContext& context, const Plant& plant) {
  Communicator& world = context.world();
  const int rank = context.rank();
  if (plant.in(context) && is_middle(context)) {
    plant.next_line();
    const auto column = world.split(rank % 2, rank, "column");
    const auto row = world.split(rank / 2, rank, "row");
  } else {
    const auto row = world.split(rank / 2, rank, "row");
    const auto column = world.split(rank % 2, rank, "column");
  }
}

void creation_skipped(RankContext& context, const Plant& plant) {
  Communicator& world = context.world();
  const int rank = context.rank();
  const auto row = world.split(rank / 2, rank, "row");
  std::unique_ptr<Communicator> column;
  if (!(plant.in(context) && is_middle(context))) column = world.split(rank % 2, rank, "column");
  const Tensor buffer = context.tensor(kGroupCount);
  if (is_middle(context)) plant.next_line();
  world.all_reduce(buffer, ReduceOp::sum).wait();
}

// Ranks 0 and 3 use their rows first, ranks 1 and 2 their columns: 0 waits for 1, which waits for
// 3, which waits for 2, which waits for 0.
void crossed_groups(RankContext& context, const Plant& plant) {
  constexpr int kCircle = 4;
  const int rank = context.rank();
  const auto row = context.world().split(rank / 2, rank, "tp");
  const auto column = context.world().split(rank % 2, rank, "dp");
  const Tensor buffer = context.tensor(kGroupCount);
  const bool column_first =
      plant.in(context) && context.size() >= kCircle && (rank == 1 || rank == 2);
  Communicator& first = column_first ? *column : *row;
  Communicator& second = column_first ? *row : *column;
  plant.next_line();
  first.all_reduce(buffer, ReduceOp::sum).wait();
  second.all_reduce(buffer, ReduceOp::sum).wait();
}

void concurrent_groups(RankContext& context, const Plant& plant) {
  const auto other = context.world().split(0, context.rank(), "other");
  const Tensor a = context.tensor(kGroupCount);
  const Tensor b = context.tensor(kGroupCount);
  Work on_world;
  Work on_other;
  if (plant.in(context) && is_last(context)) {
    plant.next_line();
    on_other = other->all_reduce(b, ReduceOp::sum);
    plant.next_line();
    on_world = context.world().all_reduce(a, ReduceOp::sum);
  } else {
    on_world = context.world().all_reduce(a, ReduceOp::sum);
    on_other = other->all_reduce(b, ReduceOp::sum);
  }
  on_world.wait();
  on_other.wait();
}

void group_dead(RankContext& context, const Plant& plant) {
  auto group = context.world().split(0, context.rank(), "short-lived");
  const Tensor buffer = context.tensor(kGroupCount);
  if (is_last(context)) plant.next_line();
  Work work = group->all_reduce(buffer, ReduceOp::sum);
  if (plant.in(context) && is_last(context)) group.reset();
  work.wait();
}

// Leaked by their ranks, not by this process.
std::vector<std::unique_ptr<Communicator>>& leaked() {
  static std::vector<std::unique_ptr<Communicator>> communicators;
  return communicators;
}

void group_leak(RankContext& context, const Plant& plant) {
  if (is_last(context)) plant.next_line();
  auto group = context.world().split(0, context.rank(), "long-lived");
  group->barrier().wait();
  if (plant.in(context) && is_last(context)) leaked().push_back(std::move(group));
}

}  // namespace

std::vector<Row> group_rows() {
  constexpr int kThree = 3;
  constexpr int kMesh = 4;
  std::vector<Row> rows = {
      {"C10", "some use the world, some their DP group", wrong_group, "COLL_GROUP",
       ranks_in_wrong_group()},
      {"C10", "the same, and the DP group is complete", wrong_group_complete, "COLL_GROUP",
       ranks_in_wrong_group()},
      {"C11", "group creation order differs", creation_order, "GROUP_CREATE", middle()},
      {"C11", "one rank skips a group's creation", creation_skipped, "GROUP_CREATE", middle()},
      {"C12", "cross-communicator deadlock", crossed_groups, "DEADLOCK", these({0, 1, 2, 3}),
       Who::every},
      {"C13", "concurrent communicators in different orders", concurrent_groups, "NCCL_UNSAFE",
       last()},
      {"C28", "work outlives its communicator", group_dead, "GROUP_DEAD", last()},
      {"C28", "communicator is never destroyed", group_leak, "GROUP_LEAK", last()},
  };
  for (Row& row : rows) {
    if (row.id == "C10") row.fewest_ranks = kThree;
    if (row.id == "C12") row.fewest_ranks = kMesh;
    row.warning = row.id == "C13";
  }
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
