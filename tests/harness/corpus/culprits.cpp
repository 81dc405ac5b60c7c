#include <cstring>

#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Bugs of one rank that hold up others, or that nobody sees while it happens: the report must tell
// the one from the many.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kCulpritCount = 4;

void reduce(RankContext& context) {
  context.world().all_reduce(context.tensor(kCulpritCount), ReduceOp::sum).wait();
}

void extra_at_the_end(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(kCulpritCount);
  context.world().all_reduce(buffer, ReduceOp::sum).wait();
  if (plant.in(context) && is_last(context)) {
    plant.next_line();
    context.world().all_reduce(buffer, ReduceOp::sum).wait();
  }
}

// The last rank waits for its neighbour, which waits for it in the call that it has left out.
void left_out(RankContext& context, const Plant& plant) {
  const auto pair = context.world().split(context.rank() / 2, context.rank(), "pair");
  if (!(plant.in(context) && is_last(context))) reduce(context);
  if (is_last(context)) plant.next_line();
  pair->barrier().wait();
  reduce(context);
}

void other_group(RankContext& context, const Plant& plant) {
  const auto pair = context.world().split(context.rank() / 2, context.rank(), "pair");
  const Tensor buffer = context.tensor(kCulpritCount);
  const bool wrong = plant.in(context) && is_last(context);
  Communicator& group = wrong ? context.world() : *pair;
  if (is_last(context)) plant.next_line();
  group.all_reduce(buffer, ReduceOp::sum).wait();
}

// Rank 0 sends to rank 1 what the last rank waits for.
void wrong_peer(RankContext& context, const Plant& plant) {
  const int last_rank = context.size() - 1;
  const Tensor buffer = context.tensor(kCulpritCount);
  if (last_rank > 1 && context.rank() == 0) {
    plant.next_line();
    context.world().send(buffer, plant.in(context) ? 1 : last_rank).wait();
  }
  if (last_rank > 1 && is_last(context)) context.world().recv(buffer, 0).wait();
  context.world().barrier().wait();
}

// Reads what a reduction is about to write, by a pointer from before; its value is right already.
template <class Number>
void read_by_pointer(RankContext& context, const Plant& plant, DType dtype) {
  const Tensor largest = context.runtime().allocate(MemoryCategory::comm, {kCulpritCount}, dtype);
  for (std::int64_t i = 0; i < kCulpritCount; ++i) largest.set(i, 3.0);
  const std::byte* const data = largest.data();
  if (is_last(context)) plant.next_line();
  Work work = context.world().all_reduce(largest, ReduceOp::max);
  Number early{};
  std::memcpy(&early, data, sizeof(early));
  work.wait();
  Number late{};
  std::memcpy(&late, data, sizeof(late));
  const bool wrong = plant.in(context) && is_last(context);
  context.show(Shown::output, "largest", static_cast<double>(wrong ? early : late));
}

void read_floats(RankContext& context, const Plant& plant) {
  read_by_pointer<double>(context, plant, DType::fp64);
}

void read_integers(RankContext& context, const Plant& plant) {
  read_by_pointer<std::int64_t>(context, plant, DType::int64);
}

// Rank 0 takes the numbers of ranks 1 and 2 as they come and expects that of rank 1 first.
void first_comes_first(RankContext& context, const Plant& plant) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  if (context.size() < 3) return;
  const int rank = context.rank();
  const Tensor number = context.tensor(1, [&](std::int64_t) { return rank; });
  if (rank == 2) {
    context.runtime().compute({"slow", ComputeKind::memory_bound, DType::fp64, 0, kBytes}, [] {});
  }
  if (rank == 1 || rank == 2) context.messages().send(number, 0, 0).wait();
  if (rank != 0) return;
  const Tensor first = context.tensor(1);
  const Tensor second = context.tensor(1);
  plant.next_line();
  context.messages().recv(first, plant.in(context) ? kAnySource : 1, 0).wait();
  context.messages().recv(second, plant.in(context) ? kAnySource : 2, 0).wait();
  context.require(first.get(0) == 1.0, "the first is rank 1's");
}

}  // namespace

std::vector<Row> culprit_rows() {
  constexpr int kThreeRanks = 3;
  std::vector<Row> rows = {
      {"C31", "extra call at the end", extra_at_the_end, "COLL_MISSING", last()},
      {"C32", "left out, and waits elsewhere", left_out, "COLL_MISSING", last()},
      {"C33", "one rank uses another of its groups", other_group, "COLL_GROUP", last()},
      {"C34", "message to the wrong peer", wrong_peer, "P2P_UNMATCHED", only(0)},
      {"C35", "result read by a pointer before the wait", read_floats, "BUF_READ_EARLY", last()},
      {"C36", "the same of integers", read_integers, "BUF_READ_EARLY", last()},
      {"C37", "a value depends on who comes first", first_comes_first, "SCHEDULE_DEPENDS", only(0)},
  };
  for (Row& row : rows) {
    row.explored = row.id == "C37";
    if (row.id == "C32" || row.id == "C33" || row.id == "C34" || row.explored) {
      row.fewest_ranks = kThreeRanks;
    }
  }
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
