#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Numbers that are right in fp64 and too coarse below.
namespace shardsim::corpus {

namespace {

constexpr int kRanks = 64;
constexpr std::int64_t kElements = 4;

// A large sample and many small ones, each of them less than half the spacing of bf16 there. They
// are added along a chain of ranks: in fp32 as it should be, or in the precision they have.
void coarse_sum(RankContext& context, const Plant& plant) {
  constexpr double kLarge = 256.0;
  const int rank = context.rank();
  const bool widened = context.precision() == DType::bf16 && !plant.in(context);
  const DType chain = widened ? DType::fp32 : context.precision();
  const Part mine = my_part(kRanks, context);
  const auto sample = [&](std::int64_t i, std::int64_t element) {
    return i == 0 ? kLarge * static_cast<double>(1 + element % 2) : 1.0;
  };
  const Shape shape = {kElements};
  const Tensor sum = context.runtime().allocate(MemoryCategory::comm, shape, chain);
  const Tensor before = context.runtime().allocate(MemoryCategory::comm, shape, chain);
  if (rank > 0) context.world().recv(before, rank - 1).wait();
  for (std::int64_t element = 0; element < kElements; ++element) {
    double local = 0.0;
    for (std::int64_t i = mine.first; i < mine.last; ++i) local += sample(i, element);
    sum.set(element, before.get(element) + local);
  }
  if (!is_last(context)) context.world().send(sum, rank + 1).wait();
  context.world().broadcast(sum, context.size() - 1).wait();
  const Tensor gradient =
      context.tensor(kElements, [&](std::int64_t element) { return sum.get(element); });
  plant.next_line();
  context.show(Shown::gradient, "weights", gradient);
}

}  // namespace

std::vector<Row> precision_rows() {
  std::vector<Row> rows = {
      {"S17", "bf16 sum over 64 ranks", coarse_sum, "PRECISION", all(), Who::every,
       "the error is 28.0 times"},
  };
  rows.front().options.ranks = {kRanks};
  rows.front().options.precision = DType::bf16;
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
