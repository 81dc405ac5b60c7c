#include <stdexcept>

#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Calls that the members of one group disagree on, and members that do not come. One rank is wrong.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kCollectiveCount = 128;

void order(RankContext& context, const Plant& plant) {
  const Tensor part = context.tensor(kCollectiveCount);
  const Tensor full = context.tensor(kCollectiveCount * context.size());
  if (plant.in(context) && is_last(context)) {
    plant.next_line();
    context.world().all_gather(full, part).wait();
    context.world().all_reduce(part, ReduceOp::sum).wait();
  } else {
    context.world().all_reduce(part, ReduceOp::sum).wait();
    context.world().all_gather(full, part).wait();
  }
}

void missing(RankContext& context, const Plant& plant) {
  const Tensor loss = context.tensor(1);
  context.world().barrier().wait();
  if (plant.in(context) && is_middle(context)) return;
  plant.next_line();
  context.world().all_reduce(loss, ReduceOp::sum).wait();
}

void twice(RankContext& context, const Plant& plant) {
  const Tensor bucket = context.tensor(kCollectiveCount);
  context.world().all_reduce(bucket, ReduceOp::sum, {.label = "A"}).wait();
  if (plant.in(context) && is_last(context)) {
    plant.next_line();
    context.world().all_reduce(bucket, ReduceOp::sum, {.label = "A"}).wait();
  }
  context.world().all_reduce(bucket, ReduceOp::sum, {.label = "B"}).wait();
}

void count(RankContext& context, const Plant& plant) {
  if (plant.in(context) && is_last(context)) {
    const Tensor buffer = context.tensor(kCollectiveCount - 1);
    plant.next_line();
    context.world().all_reduce(buffer, ReduceOp::sum).wait();
    return;
  }
  context.world().all_reduce(context.tensor(kCollectiveCount), ReduceOp::sum).wait();
}

void dtype(RankContext& context, const Plant& plant) {
  const auto allocate = [&](std::int64_t elements, DType type) {
    return context.runtime().allocate(MemoryCategory::comm, {elements}, type);
  };
  if (plant.in(context) && is_last(context)) {
    const Tensor same_bytes = allocate(2 * kCollectiveCount, DType::bf16);
    plant.next_line();
    context.world().all_reduce(same_bytes, ReduceOp::sum).wait();
    return;
  }
  context.world().all_reduce(allocate(kCollectiveCount, DType::fp32), ReduceOp::sum).wait();
}

void reduce_op(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(kCollectiveCount);
  if (plant.in(context) && is_last(context)) {
    plant.next_line();
    context.world().all_reduce(buffer, ReduceOp::max).wait();
    return;
  }
  context.world().all_reduce(buffer, ReduceOp::sum).wait();
}

void root(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(kCollectiveCount);
  if (plant.in(context) && is_last(context)) {
    plant.next_line();
    context.world().broadcast(buffer, 1).wait();
    return;
  }
  context.world().broadcast(buffer, 0).wait();
}

// All send one element to each, but rank 0 sends five to rank 1.
void splits(RankContext& context, const Plant& plant) {
  constexpr std::int64_t kMore = 5;
  const auto size = static_cast<std::size_t>(context.size());
  std::vector<std::int64_t> send(size, 1);
  std::vector<std::int64_t> recv(size, 1);
  if (context.rank() == 0) send.back() = size > 1 ? kMore : 1;
  if (is_last(context) && size > 1) recv[0] = plant.in(context) ? kMore - 1 : kMore;
  const auto sum = [](const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  const Tensor input = context.tensor(sum(send));
  const Tensor output = context.tensor(sum(recv));
  plant.next_line();
  context.world().all_to_all(output, input, send, recv).wait();
}

void step_counts(RankContext& context, const Plant& plant) {
  constexpr int kBatches = 10;
  const bool fewer = plant.in(context) && is_last(context);
  for (int batch = 0; batch < (fewer ? kBatches - 1 : kBatches); ++batch) {
    const Tensor gradient = context.tensor(kCollectiveCount);
    plant.next_line();
    context.world().all_reduce(gradient, ReduceOp::sum, {.label = "gradient"}).wait();
  }
}

void unequal_exit(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(kCollectiveCount);
  context.world().barrier().wait();
  if (plant.in(context) && is_middle(context)) throw std::runtime_error("planted");
  plant.next_line();
  context.world().all_reduce(buffer, ReduceOp::sum).wait();
}

}  // namespace

std::vector<Row> collective_rows() {
  const auto ends = [](int size) { return std::vector<int>{0, size - 1}; };
  return in_file({
      {"C01", "collective order differs", order, "COLL_ORDER", last()},
      {"C02", "missing participant", missing, "COLL_MISSING", middle()},
      {"C03", "extra call pairs with the next one", twice, "COLL_LABEL", last()},
      {"C04", "count differs", count, "COLL_COUNT", last(), Who::first, "127"},
      {"C05", "dtype differs, bytes equal", dtype, "COLL_DTYPE", last(), Who::first, "bf16"},
      {"C06", "reduce op differs", reduce_op, "COLL_REDOP", last(), Who::first, "max"},
      {"C07", "root differs", root, "COLL_ROOT", last()},
      {"C09", "all-to-all splits disagree", splits, "A2A_SPLIT", ends, Who::every, "5"},
      {"C29", "uneven step counts", step_counts, "COLL_MISSING", last(), Who::first,
       "step counts differ"},
      {"C30", "one rank throws, the others wait", unequal_exit, "RANK_FAILED", middle(), Who::first,
       "planted"},
  });
}

}  // namespace shardsim::corpus
